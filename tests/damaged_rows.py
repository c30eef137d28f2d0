"""What another program may write into a row of the SQL stores, once the database's own checks are out of its way."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.states import JobState
from scheduler.testing.contract.damage_cases import STATES

_FINISHED = (JobState.DEAD, JobState.SUCCEEDED)
_FEW = (JobState.READY, JobState.LEASED)  # for further cases of a column
_POLICY = '{"curve":"%s","initial":1.0,"factor":2.0,"cap":%s,"jitter":0.1,"max_retries":null}'
_ERROR = '[{"attempt":%s,"at":%s,"kind":%s,"message":"","traceback":""}]'


@dataclass(frozen=True, slots=True)
class Garbage:
    """A value for a column."""

    column: str
    value: object
    states: tuple[JobState, ...] = STATES
    repaired_by_requeue: bool = False


ROWS = {
    "policy: curve of a later release": Garbage("retry_policy", _POLICY % ("fibonacci", 60.0)),
    "policy: cap without bound": Garbage("retry_policy", _POLICY % ("exponential", "1e300"), states=_FEW),
    "policy: list": Garbage("retry_policy", "[1]", states=_FEW),
    "policy: number": Garbage("retry_policy", "5", states=_FEW),
    "policy: text": Garbage("retry_policy", '"x"', states=_FEW),
    "policy: deep": Garbage("retry_policy", "[" * 3_000 + "]" * 3_000, states=_FEW),
    "metadata: list": Garbage("metadata", "[1]"),
    "metadata: number": Garbage("metadata", '{"a":1}', states=_FEW),
    "metadata: deep": Garbage("metadata", '{"a":' * 3_000 + "1" + "}" * 3_000, states=_FEW),
    "errors: object": Garbage("errors", '{"a":1}'),
    "errors: number": Garbage("errors", "[5]", states=_FEW),
    "errors: another shape": Garbage("errors", '[{"attempt":1}]', states=_FEW),
    "errors: attempt is text": Garbage("errors", _ERROR % ('"x"', 0, '"E"'), states=_FEW),
    "errors: moment out of range": Garbage("errors", _ERROR % (1, 2**62, '"E"'), states=_FEW),
    "errors: kind is a number": Garbage("errors", _ERROR % (1, 0, 5), states=_FEW),
    "priority: 77": Garbage("priority", 77),
    "priority: -5": Garbage("priority", -5, states=_FEW),
    "attempts: -5": Garbage("attempts", -5, repaired_by_requeue=True),
    "attempts: least": Garbage("attempts", -(2**31), repaired_by_requeue=True, states=_FEW),
    "crashes: -5": Garbage("crashes", -5, repaired_by_requeue=True),
    "max_retries: -5": Garbage("max_retries", -5),
    "max_retries: too many": Garbage("max_retries", 2**31 - 1, states=_FEW),
    "timeout: -1": Garbage("timeout", -1.0),
    "timeout: infinite": Garbage("timeout", float("inf"), states=_FEW),
    "run_at: late": Garbage("run_at", 2**62),
    "run_at: early": Garbage("run_at", -(2**63), states=_FEW),
    "created_at: late": Garbage("created_at", 2**62),
    "finished_at: late": Garbage("finished_at", 2**62, states=_FINISHED, repaired_by_requeue=True),
    "type: empty": Garbage("type", ""),
    "type: control character": Garbage("type", "a\nb", states=_FEW),
}

IDS: dict[str, dict[str, object]] = {
    "line feed": {"id": "a\nb"},
    "delete": {"id": "a\x7fb"},
    "later control character": {"id": "a\x85b"},
    "empty": {"id": ""},
    "too long": {"id": "x" * 300},
    "line feed and priority": {"id": "a\nb", "priority": 77},
    "line feed and state": {"id": "a\nb", "state": 9},
    "too long and errors": {"id": "x" * 300, "errors": "[5]"},
}
"""Ids that no job can have, with a second fault or without, by columns."""
