"""The measured store, and the jobs that a benchmark puts into it."""

from __future__ import annotations

import uuid
from typing import Self
from urllib.parse import parse_qsl, urlencode

from benchmarks import baselines
from benchmarks.measure import Baseline
from scheduler.backend import Backend
from scheduler.identity import new_token
from scheduler.jobs import NewJob
from scheduler.leases import Completion, Lease
from scheduler.plugins import backend_from_url
from scheduler.states import JobState

TYPE = "benchmark.nothing"
PAYLOAD = b'{"to": "someone@example.org", "subject": "a letter for you"}'  # 60 bytes
PROBE = "bench-probe"
LEASE = 60.0  # seconds; longer than any repeat
SLICE = 1_000  # jobs per call where the size of calls is not measured


class BenchmarkStore:
    """
    Store for one run of a benchmark.

    size: size of a repeat, in jobs unless the benchmark defines it otherwise. batch: jobs per call of a worker.
    """

    def __init__(self, url: str, *, size: int, batch: int = 64) -> None:
        self.store = baselines.KINDS.get(url.partition(":")[0], "")
        self.url = with_options(url, migrate="true") if self.store == "postgres" else url
        self.size = size
        self.batch = batch
        self._queues: list[str] = []
        self.backend = self.open()

    def open(self, **options: str) -> Backend:
        """Open another backend on the store with further URL options. On memory this is a new, empty store."""
        backend = backend_from_url(with_options(self.url, **options))
        backend.stats([PROBE])  # connects, and creates the tables that baselines use too
        return backend

    def baseline(self, **names: str) -> Baseline | None:
        """Return the baseline for this store, None if it has none. *names*: baseline names by kind of store."""
        name = names.get(self.store)
        return baselines.baseline(name, self.url) if name else None

    def new_queue(self) -> str:
        """Return the name of a new queue. It is emptied at the end."""
        self._queues.append(f"bench-{uuid.uuid4().hex[:12]}")
        return self._queues[-1]

    def forget(self, queue: str) -> None:
        """Do not empty *queue* at the end, because it is empty."""
        self._queues.remove(queue)

    def new_jobs(self, queue: str, count: int, *, delay: float | None = None) -> list[NewJob]:
        """Return *count* jobs with 60 bytes of payload, for a handler that does nothing."""
        return [NewJob(type=TYPE, payload=PAYLOAD, queue=queue, delay=delay) for _ in range(count)]

    def fill(self, backend: Backend, queue: str, count: int, *, delay: float | None = None) -> None:
        """Enqueue *count* jobs, in slices."""
        for start in range(0, count, SLICE):
            backend.enqueue(self.new_jobs(queue, min(SLICE, count - start), delay=delay))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for queue in self._queues:
            empty(self.backend, queue)
        self.backend.close()


def with_options(url: str, **options: str) -> str:
    """Return *url* with further query parameters. Those that it already has stay."""
    base, _, query = url.partition("?")
    given = dict(parse_qsl(query))
    more = {**options, **given}
    return f"{base if '://' in base else f'{base}://'}?{urlencode(more)}" if more else url


def lease(backend: Backend, queue: str, limit: int) -> list[Lease]:
    """Lease up to *limit* jobs. Return none if the queue has no ready job."""
    return list(backend.lease([queue], token=new_token(), worker_id="benchmark", duration=LEASE, limit=limit))


def complete(backend: Backend, leases: list[Lease]) -> None:
    """Complete all *leases*. Raise an error if one is refused."""
    refused = backend.complete([Completion(lease=one) for one in leases])
    if refused:
        raise RuntimeError(f"{len(refused)} leases were refused: the run is invalid")


def empty(backend: Backend, queue: str) -> None:
    """Delete all jobs of *queue* that are not leased."""
    for state in set(JobState) - {JobState.LEASED}:
        while backend.purge(queue, state, SLICE):
            pass
