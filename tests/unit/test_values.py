"""Fast constructors make the same values as the slow ones."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from scheduler.jobs import Job, Priority
from scheduler.leases import Enqueued
from scheduler.states import JobState
from scheduler.values import maker_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FIELDS = {
    "state": JobState.READY,
    "id": "1",
    "queue": "q",
    "type": "t",
    "payload": b"x",
    "priority": Priority.HIGH,
    "run_at": NOW,
    "created_at": NOW,
    "max_retries": 3,
    "timeout": 5.0,
}


def test_a_value_is_made_of_positions_and_defaults() -> None:
    made = maker_of(Job, *FIELDS)(*FIELDS.values())
    assert type(made) is Job
    assert made == Job(**FIELDS)  # type: ignore[arg-type]  # each of its own type
    assert repr(made) == repr(Job(**FIELDS))  # type: ignore[arg-type]  # as above


def test_no_two_values_share_a_default_that_can_be_changed() -> None:
    make = maker_of(Job, *FIELDS)
    assert make(*FIELDS.values()).metadata is not make(*FIELDS.values()).metadata


@pytest.mark.parametrize("names", [("job",), ("job", "is_new", "is_new"), ("job", "is_new", "nosuch"), ("job", "old")])
def test_names_that_are_no_fields_or_are_missing_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(TypeError, match=r"^Enqueued cannot be made of job"):
        maker_of(Enqueued, *names)


def test_only_dataclasses_are_made() -> None:
    with pytest.raises(TypeError, match="no dataclass"):
        maker_of(int)
