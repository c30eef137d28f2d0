"""What an idle worker costs."""

from __future__ import annotations

import time

import pytest

from scheduler.config import WorkerConfig
from scheduler.worker import Worker
from worker.harness import SOON, WorkerHarness
from worker.scripts import run_python


def test_an_idle_worker_makes_at_most_three_calls_a_second(harness: WorkerHarness) -> None:
    """With the default configuration; a wait for wake-ups is not a call."""
    worker = Worker(harness.backend, WorkerConfig(queues=(harness.queue,)), metrics=harness.watch)
    worker.handle("work", harness.count_runs)
    with worker:
        assert harness.faults.wait_for("lease", calls=1)
        began, before = time.monotonic(), calls(harness)
        assert harness.faults.wait_for("lease", calls=harness.faults.count("lease") + 4, timeout=SOON)
        made, took = calls(harness) - before, time.monotonic() - began
    # Two more than the rate allows: those of the first and the last moment.
    assert made <= 3 * took + 2, f"{made} calls in {took:.1f} s"


def calls(harness: WorkerHarness) -> int:
    return harness.faults.count() - (harness.faults.count("wait") if "wait" in harness.faults._methods else 0)


SWITCHES = """
import resource, sys, time
from scheduler import Worker
from scheduler.config import WorkerConfig
from scheduler_backends.memory import MemoryBackend

seconds = float(sys.argv[1])
worker = Worker(MemoryBackend(), WorkerConfig())
worker.handle("work", lambda job, ctx: None)

def switches():
    return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw

worker.start()
time.sleep(1.0)
before, began = switches(), time.monotonic()
time.sleep(seconds)
made, took = switches() - before, time.monotonic() - began
assert worker.stop(10.0)
print(made, made / took * 10.0)
"""


def voluntary_switches_in_ten_seconds(measured_for: float) -> float:
    return float(run_python(SWITCHES, str(measured_for), timeout=60).split()[1])


def test_an_idle_process_switches_context_at_most_fifty_times_in_ten_seconds() -> None:
    """Measured for three; on a machine that is busy with other things, the best of three tries counts."""
    measured = []
    for _ in range(3):
        measured.append(voluntary_switches_in_ten_seconds(3.0))
        if measured[-1] <= 50.0:
            return
    pytest.fail(f"switches in 10 s: {measured}")


@pytest.mark.long
def test_an_idle_process_switches_context_at_most_fifty_times_in_ten_real_seconds() -> None:
    assert voluntary_switches_in_ten_seconds(10.0) <= 50.0
