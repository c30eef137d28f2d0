"""
Cost and speed of a worker on very many queues, on Redis. --size: the number of queues, each with eight partitions.

many_queues_idle: commands per second without work, both those that the worker sends and all that run, as MONITOR shows
them. many_queues_lateness: lateness of delayed jobs in random queues. one_queue, many_queues: jobs per second, all in
one queue or spread evenly over all. many_queues_back: seconds from the expiry of a killed worker's leases until another
worker has completed its jobs, one in each partition.
"""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.baselines_redis import client
from benchmarks.benchmark_store import TYPE, BenchmarkStore
from benchmarks.command import main
from benchmarks.measure import (
    CALLS_PER_SECOND,
    JOBS_PER_SECOND,
    MILLISECONDS,
    PERCENT_OF_A_CORE,
    Measure,
    Unit,
    quantiles,
)
from benchmarks.worker_throughput import TIMEOUT, Finish, nothing
from scheduler import Worker, WorkerConfig
from scheduler.jobs import Job, NewJob

if TYPE_CHECKING:
    from redis import Redis

MARKS = "{scheduler}:leases"
SECONDS = Unit("s", float)
SETTLED_IN = 3.0  # seconds until the worker has checked all partitions once
WATCHED_FOR = 30.0  # seconds; several rounds of every loop
DELAYED = 100
DELAY = 0.2  # seconds
JOBS = 100_000  # 100 per queue: with 20, a partition would have only two or three jobs per call of a script
LEASE = 15.0  # seconds, for the worker that is killed
RECOVER_INTERVAL = 5.0  # seconds


def measures(bench: BenchmarkStore) -> Iterator[Measure]:
    """Yield all measures in this order. The queues are created once."""
    queues = tuple(bench.new_queue() for _ in range(bench.size))
    for start in range(0, len(queues), 100):
        some = queues[start : start + 100]
        bench.backend.enqueue([NewJob(type=TYPE, queue=queue) for queue in some for _ in range(24)])
    drain(bench, queues, 24 * len(queues))
    units = {"sent": CALLS_PER_SECOND, "with_scripts": CALLS_PER_SECOND, "cpu": PERCENT_OF_A_CORE}
    yield Measure(name="many_queues_idle", unit=units, run=partial(idle, bench, queues))
    yield Measure(name="many_queues_lateness", unit=MILLISECONDS, run=partial(late, bench, queues))
    yield Measure(name="one_queue", unit=JOBS_PER_SECOND, run=partial(throughput, bench, (bench.new_queue(),)))
    yield Measure(name="many_queues", unit=JOBS_PER_SECOND, run=partial(throughput, bench, queues))
    yield Measure(name="many_queues_back", unit=SECONDS, run=partial(back, bench, queues))


def idle(bench: BenchmarkStore, queues: Sequence[str]) -> dict[str, float]:
    """Return commands per second, and the share of a core."""
    backend = bench.open()
    worker = Worker(backend, WorkerConfig(queues=queues))
    worker.handle(TYPE, nothing)
    with client(bench.url) as (connection, _), worker:
        _wait_until_nothing_is_marked(connection)
        sent = inside = 0
        before = _cpu()
        end = time.monotonic() + WATCHED_FOR
        with connection.monitor() as monitor:  # type: ignore[no-untyped-call]  # redis-py has no types for it
            timer = threading.Timer(WATCHED_FOR + 0.5, backend.ping)  # so that the last read of MONITOR returns
            timer.start()
            while time.monotonic() < end:
                if monitor.next_command()["client_type"] == "lua":
                    inside += 1
                else:
                    sent += 1
        cpu = _cpu() - before
        timer.cancel()
    backend.close()
    return {"sent": sent / WATCHED_FOR, "with_scripts": (sent + inside) / WATCHED_FOR, "cpu": cpu / WATCHED_FOR}


def late(bench: BenchmarkStore, queues: Sequence[str]) -> dict[str, float]:
    """Return the quantiles of the time from a due time to the start of the handler."""
    begun = threading.Event()
    at: list[float] = []

    def begin(job: Job, ctx: object) -> None:  # noqa: ARG001 - the signature of a handler
        at.append(time.time())
        begun.set()

    backend = bench.open()
    worker = Worker(backend, WorkerConfig(queues=queues))
    worker.handle(TYPE, begin)
    lateness = []
    with worker:
        time.sleep(SETTLED_IN)
        for _ in range(DELAYED):
            begun.clear()
            (enqueued,) = bench.backend.enqueue([NewJob(type=TYPE, queue=random.choice(queues), delay=DELAY)])
            if not begun.wait(TIMEOUT):
                raise RuntimeError("a delayed job was not run")
            lateness.append(at[-1] - enqueued.job.run_at.timestamp())
    backend.close()
    return quantiles(lateness)


def throughput(bench: BenchmarkStore, queues: Sequence[str]) -> float:
    """Return seconds per job, measured like `worker_throughput` with the default configuration."""
    each = JOBS // len(queues)
    jobs = [NewJob(type=TYPE, queue=queue) for queue in queues for _ in range(each)]
    random.shuffle(jobs)
    for start in range(0, len(jobs), 1_000):
        bench.backend.enqueue(jobs[start : start + 1_000])
    return drain(bench, queues, len(jobs)) / len(jobs)


def drain(bench: BenchmarkStore, queues: Sequence[str], count: int) -> float:
    """Return the seconds until a worker has completed *count* jobs."""
    backend = bench.open()
    finish = Finish(count)
    worker = Worker(backend, WorkerConfig(queues=queues), metrics=finish)
    worker.handle(TYPE, nothing)
    start = time.perf_counter()
    with worker:
        if not finish.reached.wait(TIMEOUT):
            raise RuntimeError("not all jobs were completed")
        seconds = time.perf_counter() - start
    backend.close()
    return seconds


def back(bench: BenchmarkStore, queues: Sequence[str]) -> float:
    """Return the seconds from the expiry of a killed process's leases until all their jobs are completed."""
    holder = subprocess.Popen(  # noqa: S603 - our own
        [sys.executable, "-m", "benchmarks.many_queues_holder", bench.url, str(LEASE)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdin is not None  # noqa: S101 - for mypy
    assert holder.stdout is not None  # noqa: S101 - for mypy
    jobs = [NewJob(type=TYPE, queue=queue) for queue in queues for _ in range(8)]
    for start in range(0, len(jobs), 1_000):
        bench.backend.enqueue(jobs[start : start + 1_000])
    holder.stdin.write("\n".join(queues))
    holder.stdin.close()
    held = int(holder.stdout.readline())
    holder.kill()
    killed = time.monotonic()
    holder.wait()
    backend = bench.open()
    finish = Finish(held)
    config = WorkerConfig(queues=queues, recover_interval=RECOVER_INTERVAL)
    worker = Worker(backend, config, metrics=finish)
    worker.handle(TYPE, nothing)
    with worker:
        if not finish.reached.wait(TIMEOUT):
            raise RuntimeError("not all jobs came back")
        seconds = time.monotonic() - killed - LEASE
    backend.close()
    return seconds


def _wait_until_nothing_is_marked(connection: Redis) -> None:
    """Wait until earlier leases would have expired, because checking them is not a cost of an idle worker."""
    time.sleep(SETTLED_IN)
    end = time.monotonic() + TIMEOUT
    while connection.exists(MARKS) and time.monotonic() < end:
        time.sleep(1.0)


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    sys.exit(main(__doc__, measures, size=1_000))
