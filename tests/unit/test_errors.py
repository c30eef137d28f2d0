"""The error classes: their hierarchy, their messages, and pickling."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from datetime import UTC, datetime
from typing import cast

import pytest

from scheduler import errors
from scheduler.errors import (
    BackendUnavailable,
    ConfigError,
    Discard,
    DuplicateJob,
    InvalidJob,
    JobInterrupted,
    Retry,
    SchedulerError,
    Snooze,
    TopologyError,
    WorkerCrashed,
)
from scheduler.jobs import Job, NewJob, Priority
from scheduler.states import JobState

STORED = Job(
    id="1",
    queue="mail",
    type="send",
    payload=b"\x00",
    state=JobState.READY,
    priority=Priority.HIGH,
    run_at=datetime(2030, 1, 1, tzinfo=UTC),
    created_at=datetime(2029, 1, 1, tzinfo=UTC),
    max_retries=3,
    timeout=30.0,
    metadata={"a": "b"},
)
WAITING = NewJob(type="send", payload=b"\xff", id="2")

EXAMPLES: dict[str, BaseException] = {
    "SchedulerError": SchedulerError("x"),
    "ConfigError": ConfigError("lease_duration", "must be positive"),
    "InvalidJob": InvalidJob("payload", "must be bytes"),
    "DuplicateJob": DuplicateJob("taken", STORED),
    "BackendUnavailable": BackendUnavailable("away", jobs=[WAITING]),
    "TopologyError": TopologyError("jobs stand in the way", counts={"ready": 3}),
    "WorkerCrashed": WorkerCrashed("threads are stuck", stuck=3),
    "Retry": Retry("later", delay=2.5),
    "Snooze": Snooze(3.0),
    "Discard": Discard("no use"),
    "JobInterrupted": JobInterrupted("lease lost"),
}
CLASSES = {
    name: kind
    for name, kind in vars(errors).items()
    if inspect.isclass(kind) and issubclass(kind, BaseException) and not name.startswith("_")
}
SIGNALS = {"Retry", "Snooze", "Discard", "JobInterrupted"}


def pickled(error: BaseException) -> BaseException:
    return cast("BaseException", pickle.loads(pickle.dumps(error)))  # noqa: S301 - made on this very line


PARENTS = {
    "ConfigError": ["SchedulerError"],
    "JobError": ["SchedulerError"],
    "JobTimeout": ["JobError"],
    "InvalidJob": ["JobError"],
    "JobNotFound": ["JobError"],
    "DuplicateJob": ["JobError"],
    "HandlerError": ["SchedulerError"],
    "DuplicateHandler": ["HandlerError"],
    "InvalidHandler": ["HandlerError"],
    "UnknownJobType": ["HandlerError"],
    "WorkerCrashed": ["SchedulerError"],
    "BackendError": ["SchedulerError"],
    "BackendUnavailable": ["BackendError"],
    "BackendClosed": ["BackendError"],
    "SchemaMismatch": ["BackendError"],
    "TopologyError": ["BackendError"],
    "NotSupported": ["BackendError"],
}


def test_the_tree_is_complete() -> None:
    """Every error class is in the table above, and no signal is."""
    assert set(CLASSES) == {*PARENTS, *SIGNALS, "SchedulerError"}


@pytest.mark.parametrize(("name", "parents"), PARENTS.items())
def test_an_error_is_caught_by_its_family(name: str, parents: list[str]) -> None:
    for parent in [*parents, "SchedulerError"]:
        assert issubclass(CLASSES[name], CLASSES[parent])


@pytest.mark.parametrize(
    ("name", "builtin"), [("ConfigError", ValueError), ("InvalidJob", ValueError), ("InvalidHandler", TypeError)]
)
def test_bad_values_are_caught_by_the_builtin_class_too(name: str, builtin: type[Exception]) -> None:
    assert issubclass(CLASSES[name], builtin)


@pytest.mark.parametrize("name", sorted(SIGNALS))
def test_signals_are_no_errors(name: str) -> None:
    """`except SchedulerError` in a handler lets a signal pass."""
    assert not issubclass(CLASSES[name], SchedulerError)


def test_except_exception_does_not_swallow_an_interruption() -> None:
    assert not issubclass(JobInterrupted, Exception)


@pytest.mark.parametrize("kind", [ConfigError, InvalidJob])
def test_a_bad_field_is_named(kind: type[ConfigError | InvalidJob]) -> None:
    error = kind("queue", "must not be empty")
    assert (error.field, error.message, str(error)) == ("queue", "must not be empty", "queue: must not be empty")


@pytest.mark.parametrize("name", sorted(CLASSES))
@pytest.mark.parametrize("travel", [pickled, copy.copy])
def test_an_error_survives_pickle_and_copy(name: str, travel: Callable[[BaseException], BaseException]) -> None:
    """A process pool pickles errors with all their attributes."""
    error = EXAMPLES.get(name) or CLASSES[name]("some text")
    again = travel(error)
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert again.args == error.args
    assert vars(again) == vars(error)


def test_the_examples_carry_something() -> None:
    """The test above would prove nothing with errors that have no attributes."""
    assert vars(EXAMPLES["BackendUnavailable"])["jobs"] == (WAITING,)
    assert vars(EXAMPLES["DuplicateJob"])["job"] is STORED
    assert vars(EXAMPLES["TopologyError"])["counts"] == {"ready": 3}
    assert vars(EXAMPLES["WorkerCrashed"])["stuck"] == 3
    assert (vars(EXAMPLES["Retry"])["delay"], vars(EXAMPLES["Snooze"])["delay"]) == (2.5, 3.0)
    assert vars(EXAMPLES["Discard"])["reason"] == "no use"
    assert vars(EXAMPLES["JobInterrupted"])["reason"] == "lease lost"


def test_what_an_error_carries_is_its_own() -> None:
    """Changing the caller's list later does not change the error."""
    jobs, counts = [WAITING], {"dead": 1}
    unavailable, topology = BackendUnavailable("away", jobs=jobs), TopologyError("no", counts=counts)
    jobs.clear()
    counts.clear()
    assert unavailable.jobs == (WAITING,)
    assert topology.counts == {"dead": 1}


def test_a_duplicate_shows_its_text_alone() -> None:
    """The error has the stored job as an attribute, but does not print it."""
    assert str(DuplicateJob("taken", STORED)) == "taken"
    assert DuplicateJob("taken").job is None


def test_defaults_of_signals() -> None:
    assert Retry().delay is None
    assert Discard().reason == ""
    assert BackendUnavailable("away").jobs == ()
    assert TopologyError("no").counts == {}
    assert WorkerCrashed("died").stuck == 0
