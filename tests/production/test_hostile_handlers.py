"""Handlers that do what no handler should cost their own attempt, and nobody else anything."""

from __future__ import annotations

import json
import shutil
import signal

from production.place import APPLICATIONS

RAISED = {
    "ValueError": "ValueError",
    "SystemExit": "SystemExit",
    "KeyboardInterrupt": "KeyboardInterrupt",
    "GeneratorExit": "GeneratorExit",
    "StopIteration": "StopIteration",
    "HomeMade": "hostile.HomeMade",
    "Unprintable": "hostile.UnprintableError",
    "JobInterrupted": "scheduler.errors.JobInterrupted",
    "ExceptionGroup": "ExceptionGroup",
    "MemoryError": "MemoryError",
    "RecursionError": "RecursionError",
    "UnicodeError": "ValueError",
}


def end(worker):
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0, worker.output


def test_an_exception_of_any_class_is_a_failed_attempt(place):
    """Guarantees 13 and 14: more of them than there are threads, and the worker goes on with all of its threads."""
    raising = {place.add("raises", name, max_retries=1): kind for name, kind in RAISED.items()}
    worker = place.worker("hostile:worker")
    place.until_finished(*raising)
    for id, kind in raising.items():
        job = place.job(id)
        assert job.state == "dead"
        assert [(error.attempt, error.kind) for error in job.errors] == [(1, kind), (2, kind)]
    calm = [place.add("slow") for _ in range(4)]
    place.until_finished(*calm)
    assert place.states(calm) == {"succeeded": 4}
    assert max(line.at for line in place.lines()) - min(line.at for line in place.lines()) < 0.3  # side by side
    end(worker)


def test_what_a_handler_changes_stays_with_it(place):
    """Its arguments, its thread's signal mask and context, the process's directory, time zone, environment ..."""
    changing = place.add("change", "kept", max_retries=1, metadata={"kept": "too"})
    others = [place.add(name) for name in ("mask", "mess", "context", "change", "context", "mess")]
    refused = place.add("signals")
    worker = place.worker("hostile:worker")
    place.until_finished(changing, refused, *others)
    calm = [place.add("context") for _ in range(8)]
    place.until_finished(*calm)
    end(worker)
    job = place.job(changing)
    assert job.result is not None
    assert json.loads(job.result) == "b'\"kept\"' {'kept': 'too'}" == job.errors[0].message
    assert place.job(refused).last_error.kind == "ValueError"
    assert place.states([*others, *calm]) == {"succeeded": len(others) - 1 + len(calm), "dead": 1}
    assert set(place.runs().values()) == {1, 2}


def test_a_relative_path_means_the_same_after_a_handler_changed_the_directory(file_place):
    folder = shutil.copytree(APPLICATIONS, file_place.folder / "applications")
    worker = file_place.worker("hostile:worker", folder=folder, url="sqlite:///../jobs.db?retain_succeeded=3600")
    file_place.until_finished(file_place.add("mess"))
    file_place.until_finished(file_place.add("calm"))
    end(worker)


def test_the_child_of_a_handler_that_forks_runs_nobody_elses_job(place):
    """Whether it returns, raises, exits or leaves: it holds a copy of all that the worker holds."""
    forking = [place.add("forks", how) for how in ("returns", "raises", "exits", "leaves")]
    calm = [place.add("calm") for _ in range(8)]
    worker = place.worker("hostile:worker")
    place.until_finished(*forking, *calm)
    end(worker)
    assert place.states([*forking, *calm]) == {"succeeded": 12}
    assert set(place.runs().values()) == {1}
    assert {line.process for line in place.lines()} == {worker.process.pid}


def test_threads_that_a_handler_left_behind_do_not_keep_the_process(file_place):
    left = file_place.add("threads")
    worker = file_place.worker("hostile:worker", "--grace", "0.5")
    file_place.until_finished(left)
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0, worker.output
    assert "Threads that handlers started are not waited for any longer: left behind, daemon=False" in worker.output


def test_a_handler_that_stops_its_worker_ends_it_in_order_and_a_supervisor_starts_the_next(file_place):
    stopping = [file_place.add("stop") for _ in range(2)]
    worker = file_place.worker("hostile:worker", "--processes", "2", "--threads", "1")
    file_place.until_finished(*stopping)
    calm = [file_place.add("calm") for _ in range(8)]
    file_place.until_finished(*calm)
    worker.expect("Started worker", times=3)
    end(worker)
    assert file_place.states([*stopping, *calm]) == {"succeeded": 10}
    assert set(file_place.runs().values()) == {1}
    assert "died" not in worker.output
