"""Value types are frozen, have slots and are built by keyword."""

from __future__ import annotations

import dataclasses
import inspect

import pytest

from scheduler import config, jobs, leases, queues, retry, topology

VALUES = [
    kind
    for room in (config, jobs, leases, queues, retry, topology)
    for _, kind in inspect.getmembers(room, inspect.isclass)
    if dataclasses.is_dataclass(kind) and kind.__module__ == room.__name__
]


def test_the_values_are_found() -> None:
    """The modules above contain at least the value types of the contract."""
    names = {kind.__name__ for kind in VALUES}
    assert names >= {
        "NewJob",
        "Job",
        "Lease",
        "Completion",
        "Failure",
        "Renewal",
        "Recovery",
        "Retention",
        "QueueStats",
    }


@pytest.mark.parametrize("kind", VALUES, ids=lambda kind: kind.__name__)
def test_a_value_is_frozen_slotted_and_built_by_name(kind: type) -> None:
    name = dataclasses.fields(kind)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(object.__new__(kind), name, None)
    assert not hasattr(object.__new__(kind), "__dict__")
    parameters = inspect.signature(kind).parameters.values()
    assert {parameter.kind for parameter in parameters} == {inspect.Parameter.KEYWORD_ONLY}
