"""A hundred thousand jobs: none is lost, and memory does not grow."""

from __future__ import annotations

import pytest

from worker.scripts import run_python

MANY = """
import sys, threading, time
from pathlib import Path
import gc, os
from scheduler import Worker
from scheduler.config import WorkerConfig
from scheduler.jobs import NewJob
from scheduler.states import JobState
from scheduler_backends.memory import MemoryBackend

total, early = int(sys.argv[1]), int(sys.argv[2])
backend = MemoryBackend()
done = 0
lock = threading.Lock()
enough = threading.Condition(lock)

def work(job, ctx):
    global done
    with lock:
        done += 1
        if done % 100 == 0:
            enough.notify_all()

def resident():
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

worker = Worker(backend, WorkerConfig(concurrency=8))
worker.handle("work", work)
at_early = 0.0
with worker:
    for enqueued in range(100, total + 1, 100):
        backend.enqueue([NewJob(type="work", payload=b"x" * 100) for _ in range(100)])
        with lock:  # a backlog of at most 1,000
            assert enough.wait_for(lambda: enqueued - done <= 900, 60), (enqueued, done)
        if enqueued == early:
            at_early = resident()
    with lock:
        assert enough.wait_for(lambda: done == total, 60), done
    at_end = resident()
counts = backend.stats(["default"])[0].counts
assert not any(counts.values()), counts
print(done, round(at_end - at_early, 2))
"""


def run_many(total: int, early: int) -> tuple[int, float]:
    done, grown = run_python(MANY, str(total), str(early), timeout=115).split()
    return int(done), float(grown)


def test_ten_thousand_jobs_are_run_without_loss_and_memory_does_not_grow() -> None:
    done, grown = run_many(10_000, 4_000)
    assert done == 10_000
    assert grown < 5.0


@pytest.mark.long
def test_a_hundred_thousand_jobs_are_run_without_loss_and_memory_does_not_grow() -> None:
    """With 8 threads and a backlog of at most 1,000: MB after all of them, beyond those after the first 20,000."""
    done, grown = run_many(100_000, 20_000)
    assert done == 100_000
    assert grown < 5.0
