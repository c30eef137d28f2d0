"""The values exchanged between a worker and a store."""

from __future__ import annotations

import dataclasses
import math
import pickle
from datetime import UTC, datetime, timedelta

import pytest

from scheduler.errors import ConfigError
from scheduler.jobs import Job, Priority
from scheduler.leases import Completion, Failure, Lease, Renewal
from scheduler.limits import MAX_DELAY
from scheduler.states import JobState

NOW = datetime(2030, 1, 1, tzinfo=UTC)
JOB = Job(
    id="1",
    queue="mail",
    type="send",
    payload=b"",
    state=JobState.LEASED,
    priority=Priority.NORMAL,
    run_at=NOW,
    created_at=NOW,
    max_retries=3,
    timeout=30.0,
    metadata={"a": "b"},
)
LEASE = Lease(job=JOB, token="a" * 32, expires_at=NOW)


def test_a_lease_is_the_same_right_whatever_else_has_changed() -> None:
    """So a refused lease is found among the held ones even if its job or expiry was read at another time."""
    later = dataclasses.replace(LEASE, job=dataclasses.replace(JOB, attempts=2), expires_at=NOW + timedelta(seconds=9))
    assert later == LEASE
    assert {later} == {LEASE}  # a job's metadata is a dictionary: the hash must not look at it
    assert pickle.loads(pickle.dumps(LEASE)) == LEASE  # noqa: S301 - made on this very line


@pytest.mark.parametrize(
    "other",
    [
        dataclasses.replace(LEASE, token="b" * 32),
        dataclasses.replace(LEASE, job=dataclasses.replace(JOB, id="2")),
        dataclasses.replace(LEASE, job=dataclasses.replace(JOB, queue="sms")),
        LEASE.key,
        None,
    ],
    ids=["token", "id", "queue", "its key", "nothing"],
)
def test_another_queue_job_or_token_is_another_lease(other: object) -> None:
    assert other != LEASE


@pytest.mark.parametrize("counted", ["no", None, 0, 1, []], ids=repr)
def test_a_failure_is_counted_or_not(counted: object) -> None:
    with pytest.raises(ConfigError, match=r"^counted: "):
        Failure(lease=LEASE, counted=counted)  # type: ignore[arg-type]  # the point


@pytest.mark.parametrize("delay", [-1, math.nan, math.inf, MAX_DELAY * 2, True, "1", None], ids=repr)
def test_a_failure_refuses_a_delay_that_is_none(delay: object) -> None:
    with pytest.raises(ConfigError, match=r"^delay: "):
        Failure(lease=LEASE, delay=delay)  # type: ignore[arg-type]  # what the test is about


@pytest.mark.parametrize("error", ["E", ValueError("x"), 5], ids=repr)
def test_a_failure_refuses_an_error_that_is_none(error: object) -> None:
    with pytest.raises(ConfigError, match=r"^error: "):
        Failure(lease=LEASE, error=error)  # type: ignore[arg-type]  # what the test is about


@pytest.mark.parametrize("result", ["text", 5, bytearray(b"x"), {}], ids=repr)
def test_a_completion_refuses_a_result_that_is_no_bytes(result: object) -> None:
    """Postgres would store five zero bytes for 5."""
    with pytest.raises(ConfigError, match=r"^result: "):
        Completion(lease=LEASE, result=result)  # type: ignore[arg-type]  # what the test is about


def test_defaults_say_the_least() -> None:
    assert (Failure(lease=LEASE).delay, Failure(lease=LEASE).error, Failure(lease=LEASE).counted) == (0.0, None, True)
    assert Completion(lease=LEASE).result is None
    assert Renewal().refused == ()
