"""A job that ends its process counts the attempt, ends in dead, and holds up nobody."""

from __future__ import annotations

import re
import signal
from collections import Counter

import pytest

# Seconds, for tests that count crashes: one that ran out since a loaded machine let nobody renew it counts as one too.
LONG_LEASE = "5"
DEADLY = ("segfault", "kill", "abort", "leave", "alarm", "memory")


def run_deadly(place, max_retries, *arguments):
    deadly = {place.add(name, max_retries=max_retries): name for name in DEADLY}
    calm = [place.add("calm", max_retries=100) for _ in range(10)]
    worker = place.worker("hostile:worker", "--processes", "3", "--threads", "1", *arguments, BUFFER="0")
    place.until_finished(*deadly, *calm)
    assert place.states(calm) == {"succeeded": len(calm)}
    for id, name in deadly.items():
        job = place.job(id)
        assert (name, job.state, job.attempts) == (name, "dead", max_retries + 1)
        if name != "memory":  # which may fail its job alone
            assert (name, job.last_error.kind, job.crashes) == (name, "LeaseExpired", max_retries + 1)
    assert all(place.runs()[id] <= max_retries + 1 for id in deadly)
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0, worker.output
    return worker


def test_a_job_that_ends_its_process_ends_in_dead_and_others_run(place):
    """Guarantee 12, by every way that a handler has. However it ended, the supervisor calls it a death."""
    worker = run_deadly(place, 0)
    deaths = Counter(re.findall(r"died \((.*?)\); replaced", worker.output))
    assert deaths["exit status 0"] == 1, worker.output
    assert {f"killed by signal {number}" for number in (6, 9, 11, 14)} <= set(deaths), worker.output
    assert re.search(r'hostile.py", line \d+ in segfault', worker.output)  # says what a core dump would


@pytest.mark.long
def test_each_of_these_jobs_is_leased_once_more_than_it_may_be_retried(place):
    run_deadly(place, 2)


def test_burst_is_not_over_because_a_handler_left_with_the_exit_status_of_success(file_place):
    leaving = file_place.add("leave")
    calm = [file_place.add("calm", max_retries=100) for _ in range(4)]
    worker = file_place.worker("hostile:worker", "--processes", "2", "--threads", "1", "--burst", BUFFER="0")
    assert worker.ended() == 0, worker.output
    assert file_place.states(calm) == {"succeeded": 4}
    assert file_place.job(leaving).state in {
        "leased",
        "dead",
    }  # it comes back at the next run


def test_a_process_whose_interpreter_is_kept_by_one_thread_is_replaced(file_place):
    """No thread of it can renew, time out or answer; the supervisor hears nothing, and tells where it stands."""
    hog = file_place.add("hog", timeout=2)
    calm = [file_place.add("calm", max_retries=100) for _ in range(10)]
    worker = file_place.worker("hostile:worker", "--processes", "2", "--max-silence", "4", LEASE=LONG_LEASE)
    worker.expect(r"has sent no status for 4 s and is killed")
    file_place.until_finished(hog, *calm)
    assert file_place.job(hog).last_error.kind == "LeaseExpired"
    assert file_place.states(calm) == {"succeeded": len(calm)}
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0, worker.output
    assert re.search(r'hostile.py", line \d+ in hog', worker.output)


def test_a_handler_that_closes_all_descriptors_harms_its_own_process_at_most(place):
    """Which may go on, or break and be replaced: the store stays whole, and no job is lost or ends in dead for it."""
    closing = place.add("descriptors")
    calm = [place.add("calm", max_retries=100) for _ in range(10)]
    worker = place.worker("hostile:worker", "--processes", "2", GRACE="2")
    place.until_finished(closing, *calm)
    calm += [place.add("calm", max_retries=100) for _ in range(10)]
    place.until_finished(*calm)
    assert place.states(calm) == {"succeeded": len(calm)}
    worker.signal(signal.SIGTERM)
    # 1: the broken one had not noticed before. 4: nor could it record what it held; others have run that since.
    assert worker.ended() in {0, 1, 4}, worker.output


def test_a_worker_goes_on_after_a_handler_has_closed_all_descriptors(place, store):
    """Except on SQLite, whose own files are closed then: the worker says so and ends."""
    closing = place.add("descriptors", max_retries=1)
    worker = place.worker("hostile:worker", "--processes", "1", GRACE="2")
    if store == "sqlite":
        assert worker.ended() == 5, worker.output
        assert "the file descriptors of this process were closed" in worker.output
        return
    place.until_finished(closing)
    calm = [place.add("calm") for _ in range(10)]
    place.until_finished(*calm)
    assert place.states(calm) == {"succeeded": 10}
    assert len({line.process for line in place.lines()}) == 1
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0, worker.output


def test_neighbours_of_a_poison_job_never_end_in_dead_because_of_it(place):
    """It takes each of them down at most twice; from then on it runs apart from those."""
    poison = place.add("poison", max_retries=2)
    neighbours = [place.add("slow", max_retries=2) for _ in range(12)]
    worker = place.worker("hostile:worker", "--processes", "2", LEASE=LONG_LEASE)
    place.until_finished(poison, *neighbours)
    job = place.job(poison)
    assert (job.state, job.attempts, job.crashes) == ("dead", 3, 3)
    assert place.states(neighbours) == {"succeeded": len(neighbours)}
    assert max(place.job(id).crashes for id in neighbours) in (1, 2)
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0, worker.output
