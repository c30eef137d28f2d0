"""How soon the jobs of a killed process run again, and that its name is nobody's claim to them."""

from __future__ import annotations

import os
import signal

import pytest

from production.place import QUEUE, now
from programs import ask, wait_until
from scheduler import Producer
from scheduler.identity import new_token
from scheduler.leases import Completion

LEASE, RECOVER_INTERVAL = 1.0, 2.0  # seconds, as applications/steady.py has them
PROMISED = LEASE + RECOVER_INTERVAL + 1.0


@pytest.mark.parametrize("kills", [1, pytest.param(8, marks=pytest.mark.long)])
def test_a_killed_processs_jobs_run_again_within_a_lease_and_a_recovery_interval(place, kills, record_property):
    """The promise is lease_duration + recover_interval + 1 s, from the kill to the next start of the handler."""
    # Enough of them for one to be alive at each kill, though those that die often are replaced later and later.
    processes = "2" if kills == 1 else "5"
    worker = place.worker("steady:worker", "--processes", processes, "--threads", "2", "--health-port", "0")
    (match,) = worker.expect(r"(http://127\.0\.0\.1:\d+/ready)")
    wait_until(lambda: ask(match[1])[0] == 200)
    took = []
    for _ in range(kills):
        id = place.add("lasting", max_retries=100)
        process = place.until_line("began", id).process
        os.kill(process, signal.SIGKILL)
        killed = now()
        took.append(place.until_line("began", id, times=2).at - killed)
        (place.folder / "go").touch()
        place.until_finished(id)
        (place.folder / "go").unlink()
        assert place.job(id).state == "succeeded"
    record_property("seconds", took)
    assert max(took) <= PROMISED, took
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0, worker.output


def test_jobs_that_nobody_renews_run_again_in_memory_too(new_crew):
    crew = new_crew("memory://?retain_succeeded=60", recover_interval=RECOVER_INTERVAL)
    crew.go.set()
    id = Producer(crew.backend).enqueue("work").job.id
    crew.backend.lease([QUEUE], token=new_token(), worker_id="vanished", duration=LEASE, limit=1)
    began = now()
    with crew.worker:
        wait_until(lambda: crew.runs[id])
    assert now() - began <= PROMISED


def test_a_worker_that_bears_a_dead_ones_name_keeps_none_of_its_jobs(place):
    """Guarantee 1: names such as host and process 1 come back after a restart."""
    id = place.add("lasting", max_retries=3)
    (lease,) = place.backend.lease([QUEUE], token=new_token(), worker_id="w1", duration=LEASE, limit=1)
    other = place.add("lasting")
    worker = place.worker("steady:worker", "--worker-id", "w1")
    place.until_line("began", other)  # it holds a job of its own, and so renews under this name
    place.until_line("began", id)
    assert [refused.key for refused in place.backend.complete([Completion(lease=lease)])] == [lease.key]
    assert [refused.key for refused in place.backend.renew([lease], 30.0).refused] == [lease.key]
    job = place.job(id)
    assert (job.state, job.attempts, job.crashes, job.lease_owner) == ("leased", 2, 1, "w1")
    (place.folder / "go").touch()
    place.until_finished(id, other)
    assert place.states([id, other]) == {"succeeded": 2}
    assert place.runs() == {id: 1, other: 1}
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0, worker.output


@pytest.mark.parametrize("rounds", [1, pytest.param(12, marks=[pytest.mark.long, pytest.mark.timeout(600)])])
def test_workers_that_are_stopped_under_load_run_nothing_twice(place, rounds):
    """Guarantee 24: TERM while jobs flow, again and again: what has begun is finished, the rest is given back."""
    ids: list[str] = []

    def begun(count):
        began = len(place.lines())
        if len(ids) - began < 100:  # more than buffers hold, and not more than is needed for that
            jobs = [place.producer.new_job("quick", max_retries=0) for _ in range(50)]
            ids.extend(answer.job.id for answer in place.producer.enqueue_many(jobs))
        return began >= count

    for _ in range(rounds):
        worker = place.worker("steady:worker", "--processes", "2")
        goal = len(place.lines()) + 60
        wait_until(lambda goal=goal: begun(goal))
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 0, worker.output
        assert place.states(ids).keys() <= {"ready", "succeeded"}
    worker = place.worker("steady:worker", "--processes", "2", "--burst")
    assert worker.ended() == 0, worker.output
    assert place.states(ids) == {"succeeded": len(ids)}
    assert place.runs() == dict.fromkeys(ids, 1)
