"""A process killed in the middle of any move, at any moment, loses and doubles nothing."""

from __future__ import annotations

import pytest

from production.place import QUEUE
from programs import wait_until
from scheduler import JobState
from scheduler.identity import new_token
from scheduler.leases import Completion
from scheduler.states import TERMINAL


def ids_by_state(backend):
    found: dict[str, list[JobState]] = {}
    for state in JobState:
        cursor = None
        while True:
            page = backend.list(QUEUE, state, limit=1_000, cursor=cursor)
            for job in page.jobs:
                found.setdefault(job.id, []).append(state)
            if (cursor := page.cursor) is None:
                break
    return found


def finish(backend):
    """Recover, promote, lease and complete what is there now, as workers would; whether everything is finished."""
    backend.recover_expired([QUEUE], 1_000)
    backend.promote_due([QUEUE], 1_000)
    leases = backend.lease([QUEUE], token=new_token(), worker_id="last", duration=60.0, limit=1_000)
    assert not list(backend.complete([Completion(lease=lease) for lease in leases]))
    return not any(n for state, n in backend.stats([QUEUE])[0].counts.items() if state not in TERMINAL)


@pytest.mark.parametrize("kills", [12, pytest.param(100, marks=[pytest.mark.long, pytest.mark.timeout(900)])])
def test_a_move_cut_short_by_a_kill_loses_and_doubles_nothing(place, kills):
    """Guarantee 8: every move of 50 jobs each; every one that was acknowledged is there, once, and can be finished."""
    program = place.python("mover.py", str(kills))
    program.expect("killed", times=kills)
    assert program.ended() == 0, program.output
    acknowledged = [line.split()[1] for line in program.lines if line.startswith("acknowledged")]
    assert acknowledged, program.output
    ids = {f"{turn}-{number}" for turn in acknowledged for number in range(50)}
    found = ids_by_state(place.backend)
    assert not ids - found.keys(), "acknowledged jobs are gone"
    assert not {id: states for id, states in found.items() if len(states) > 1}, "jobs in two states"
    buried = [id for id, states in found.items() if states == [JobState.DEAD]]
    assert all(answer.moved for answer in place.backend.requeue(QUEUE, buried))
    wait_until(lambda: finish(place.backend))
    assert place.states(sorted(ids)) == {"succeeded": len(ids)}
