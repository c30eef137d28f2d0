"""
Lost replies: a call that failed before or after its effect can be repeated, with the result of one call.

Guarantee 7. Each case runs on two queues: on one the call succeeds at once, on the other it fails first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from scheduler.backend import METHODS
from scheduler.errors import BackendUnavailable
from scheduler.jobs import Job
from scheduler.queues import Retention
from scheduler.states import JobState
from scheduler.testing.clock import START
from scheduler.testing.contract.fixtures import OpenHarness
from scheduler.testing.contract.repeat_cases import CASES
from scheduler.testing.faulty_backend import faulty
from scheduler.testing.harness import LONG, BackendHarness

_KEPT = Retention(succeeded=2.0, cancelled=2.0, dead=LONG)


class RepeatsContract:
    @pytest.mark.parametrize("when", ["before", "after"])
    @pytest.mark.parametrize("method", sorted(CASES))
    def test_a_call_repeated_after_a_lost_reply_has_the_effect_of_one_call(
        self, open_harness: OpenHarness, method: str, when: str
    ) -> None:
        harness = open_harness(_KEPT)
        case = CASES[method]
        once, repeated = harness.queue, harness.new_queue()
        first, second = case.prepare(harness, once), case.prepare(harness, repeated)
        if case.wait:
            harness.wait(case.wait * harness.span)

        result = case.compared(case.call(harness.backend, once, first))
        flaky = faulty(harness.backend)
        flaky.faults.before(method) if when == "before" else flaky.faults.after(method)
        with pytest.raises(BackendUnavailable):
            case.call(flaky, repeated, second)
        again = case.compared(case.call(flaky, repeated, second))

        assert again == (result if when == "before" or case.again is None else case.again)
        assert _held(harness, repeated) == _held(harness, once)

    def test_every_contract_method_is_tested(self) -> None:
        assert set(CASES) == set(METHODS) - {"close"}  # closing twice is tested in life.py


def _held(harness: BackendHarness, queue: str) -> object:
    """Return all that the reads return for a queue, without its name and, if time is real, without times."""
    listed = {state: [_told(harness, job) for job in _by_id(harness.listed(state, queue=queue))] for state in JobState}
    ids = [job.id for jobs in listed.values() for job in jobs]
    got = {id: _told(harness, job) for id, job in harness.backend.get(queue, ids).items()}
    numbers = [replace(row, queue="", oldest_ready_age=None) for row in harness.backend.stats([queue])]
    return listed, got, [(row.version, row.paused, dict(row.counts)) for row in numbers]


def _by_id(jobs: Sequence[Job]) -> Sequence[Job]:
    return sorted(jobs, key=lambda job: job.id)


def _told(harness: BackendHarness, job: Job) -> Job:
    if harness.clock:
        return replace(job, queue="")
    moment = START
    return replace(
        job,
        queue="",
        run_at=moment,
        due_at=job.due_at and moment,
        finished_at=job.finished_at and moment,
        lease_expires_at=job.lease_expires_at and moment,
        errors=tuple(replace(error, at=moment) for error in job.errors),
        created_at=moment,
    )
