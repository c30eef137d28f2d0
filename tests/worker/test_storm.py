"""Everything at once: several workers, short leases, faults at random, stops and restarts; a ledger of what ran."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter

import pytest

from scheduler.errors import BackendUnavailable
from scheduler.jobs import Job
from scheduler.states import TERMINAL, JobState
from scheduler.worker import JobContext
from worker.harness import SOON, WorkerHarness

METHODS = ["lease", "renew", "complete", "retry", "bury", "release", "promote_due", "recover_expired"]


class Ledger:
    """Every run of a handler: which attempt it was, and whether it said that it had succeeded."""

    def __init__(self, seed: int) -> None:
        self.lock = threading.Lock()
        self.dice = random.Random(seed)
        self.runs: dict[str, list[int]] = {}
        self.succeeded: Counter[str] = Counter()

    def handle(self, job: Job, ctx: JobContext) -> bytes:
        with self.lock:
            self.runs.setdefault(job.id, []).append(job.attempts)
            fate, pause = self.dice.random(), self.dice.random() * 0.02
        if fate < 0.05:
            pause = 0.4  # longer than a lease
        ctx.cancelled.wait(pause)
        if fate > 0.9:
            raise ValueError(f"attempt {job.attempts}")
        ctx.check()
        with self.lock:
            self.succeeded[job.id] += 1
        return f"{job.attempts}".encode()


def _enqueue(harness: WorkerHarness, dice: random.Random) -> dict[str, int]:
    """A batch, offered until the store has acknowledged it; id → max_retries."""
    batch = [
        harness.new(max_retries=dice.randint(0, 6), timeout=dice.choice([0.2, 30.0]), delay=dice.choice([0.0, 0.05]))
        for _ in range(dice.randint(1, 20))
    ]
    for _ in range(500):
        try:
            harness.backend.enqueue(batch)
        except BackendUnavailable:
            threading.Event().wait(0.005)
        else:
            return {new.id: new.max_retries for new in batch}
    raise AssertionError("no call of 500 came through")


def storm(harness: WorkerHarness, seed: int, *, jobs: int, seconds: float) -> None:
    dice, ledger = random.Random(seed), Ledger(seed)
    over = threading.Event()
    problems: list[str] = []
    configs = [
        {
            "concurrency": 2 + number,
            "queue_buffer": number,
            "lease_duration": 0.3,
            "heartbeat_interval": 0.05,
            "recover_interval": 0.1,
            "poll_interval": 0.02,
            "batch_size": 4 + 8 * number,
            "timeout_grace": 0.2,
            "max_stuck": None,
        }
        for number in range(3)
    ]
    workers = [harness.worker(ledger.handle, **config) for config in configs]

    def restart_often(number: int) -> None:
        """One worker after the other: run, stop with some time or none, run again."""
        own = random.Random(seed * 10 + number)
        worker = workers[number]
        while not over.is_set():
            worker.start()
            over.wait(own.uniform(0.05, 0.6))
            worker.stop(own.choice([0.0, 0.05, 0.5, 2.0]))
            if not worker.stop(SOON):
                problems.append(f"worker {number} did not end")
                return

    def fail_often() -> None:
        own = random.Random(seed + 1)
        while not over.wait(own.uniform(0.0, 0.03)):
            plan = harness.faults.before if own.random() < 0.5 else harness.faults.after
            plan(own.choice(METHODS), nth=own.randint(1, 4), times=own.randint(1, 3))
            if own.random() < 0.05:
                harness.faults.before(times=None)  # an outage
                over.wait(0.15)
                harness.faults.clear()

    threads = [threading.Thread(target=restart_often, args=(number,)) for number in range(3)]
    threads.append(threading.Thread(target=fail_often))
    for thread in threads:
        thread.start()
    kept: dict[str, int] = {}
    try:
        end = time.monotonic() + seconds
        while time.monotonic() < end and len(kept) < jobs:
            kept.update(_enqueue(harness, dice))
            over.wait(dice.uniform(0.0, 0.05))
        over.wait(max(0.0, end - time.monotonic()))
    finally:
        over.set()
        for thread in threads:
            thread.join(2 * SOON)
    assert not problems
    harness.faults.clear()

    # Calm: one worker more ends what is left.
    with harness.worker(ledger.handle, **configs[2]):
        # What the storm left may be nearly all: some 15 ms each on 4 threads, or 0.4 s.
        harness.until_finished(*kept, within=SOON + 0.05 * len(kept))

    assert harness.counts()[JobState.LEASED] == 0
    for id, max_retries in kept.items():
        job = harness.job(id)
        runs = ledger.runs.get(id, [])
        assert job.state in TERMINAL
        assert job.attempts <= max_retries + 1, "attempts are bounded, crashes included"
        assert len(job.errors) <= 10
        if job.state is JobState.SUCCEEDED:
            assert ledger.succeeded[id] >= 1, "it succeeded without having run"
            assert job.result == f"{job.attempts}".encode(), "a stale holder's completion was taken"
        else:
            assert job.attempts == max_retries + 1
            assert job.last_error is not None
        assert all(1 <= attempt <= max_retries + 1 for attempt in runs)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_storm_loses_nothing_and_keeps_every_promise(harness: WorkerHarness, seed: int) -> None:
    storm(harness, seed, jobs=250, seconds=3.0)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(100, 110))
def test_a_long_storm_loses_nothing_and_keeps_every_promise(harness: WorkerHarness, seed: int) -> None:
    storm(harness, seed, jobs=5_000, seconds=20.0)
