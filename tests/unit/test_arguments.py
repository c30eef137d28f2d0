"""The arguments of backend methods are checked in one place, so every store refuses them with the same errors."""

from __future__ import annotations

import enum
import math
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from scheduler.errors import ConfigError
from scheduler.identity import new_token
from scheduler.jobs import Job, NewJob, Priority
from scheduler.leases import Completion, Failure, Lease, check_settled
from scheduler.limits import (
    MAX_BATCH,
    check_all,
    check_duration,
    check_ids,
    check_limit,
    check_queues,
    check_state,
    check_token,
    is_possible_id,
)
from scheduler.states import JobState
from scheduler.topology import check_partitions, check_version

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Queue(str, enum.Enum):  # noqa: UP042 - the old spelling is what formats as "Queue.MAIL"
    MAIL = "mail"


def lease(id: str = "j", **changes: Any) -> Lease:
    job = Job(
        id=id, queue="q", type="t", payload=b"", state=JobState.LEASED, priority=Priority.NORMAL, run_at=NOW,
        created_at=NOW, max_retries=0, timeout=1.0,
    )  # fmt: skip
    return Lease(**{"job": job, "token": new_token(), "expires_at": NOW, **changes})


def lease_of(**places: Any) -> Lease:
    real = lease()
    return replace(real, job=replace(real.job, **places))


FAR_AWAY = [lease_of(**{name: number}) for name in ("queue_version", "partition") for number in (-1, 2**63, 10**5_000)]


class Spoken(int):
    """A number with its own text."""

    def __str__(self) -> str:
        return "one"

    __repr__ = __format__ = __str__  # type: ignore[assignment]  # any text will do


def test_queues_are_named_once_each_in_their_order() -> None:
    assert check_queues(["b", "a", "b"]) == ("b", "a")


@pytest.mark.parametrize("value", ["default", [], (), [""], [None], ["a", "b\n"]])
def test_bad_queues_are_refused_and_named(value: list[str]) -> None:
    """A single string would be used as a sequence of letters."""
    with pytest.raises(ConfigError) as caught:
        check_queues(value)
    assert caught.value.field == "queues"


@pytest.mark.parametrize("value", [0, -1, MAX_BATCH + 1, True, 1.0, None, "1"])
def test_a_bad_limit_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match=r"^limit: "):
        check_limit(value)


def test_a_limit_passes() -> None:
    assert (check_limit(1), check_limit(MAX_BATCH)) == (1, MAX_BATCH)


@pytest.mark.parametrize("value", [0, 0.000_9, -1, math.inf, math.nan, 367 * 86_400, True, None, "1"])
def test_a_bad_duration_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match=r"^duration: "):
        check_duration(value)


def test_a_duration_passes() -> None:
    assert check_duration(0.001) == 0.001
    assert check_duration(366 * 86_400) == 366 * 86_400.0


def test_a_token_is_32_lower_hexadecimal_digits() -> None:
    assert check_token("0123456789abcdef" * 2) == "0123456789abcdef" * 2


@pytest.mark.parametrize(
    "value", ["", "0" * 31, "0" * 33, "0" * 31 + "A", "0" * 31 + "g", "0" * 32 + "\n", "٠" * 32, None]
)
def test_a_bad_token_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match=r"^token: "):
        check_token(value)


@pytest.mark.parametrize("queues", [("mail", Queue.MAIL), [Queue.MAIL]])
def test_a_queue_named_by_an_enum_is_its_plain_text(queues: Any) -> None:
    assert [f"{name}" for name in check_queues(queues)] == ["mail"]


@pytest.mark.parametrize("jobs", [None, 2.0, "job", [1], [None], ["job"], NewJob(type="t")])
def test_what_is_no_sequence_of_new_jobs_is_refused(jobs: Any) -> None:
    with pytest.raises(ConfigError, match=r"^jobs: "):
        check_all("jobs", jobs, NewJob)


@pytest.mark.parametrize("ids", [None, 5, "j", [1], [b"j"], ["j", None]])
def test_what_is_no_sequence_of_texts_is_refused(ids: Any) -> None:
    with pytest.raises(ConfigError, match=r"^ids: "):
        check_ids(ids)


def test_ids_that_no_job_can_have_are_known() -> None:
    assert all(map(is_possible_id, ["j", "日本", " ", "x" * 200]))
    assert not any(map(is_possible_id, ["", "x" * 201, "a\nb", "\x00", "\ud800", "\x85"]))


@pytest.mark.parametrize("state", [None, 5, "gone", "READY", b"ready", []])
def test_a_state_is_one_of_the_seven(state: Any) -> None:
    with pytest.raises(ConfigError, match=r"^state: "):
        check_state(state)


def test_a_state_may_be_given_as_text() -> None:
    assert check_state("ready") is JobState.READY


@pytest.mark.parametrize("value", [0, -1, True, 1.0, None, "1", 10**9])
def test_versions_and_partitions_are_whole_numbers(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"^version: "):
        check_version(value)
    with pytest.raises(ConfigError, match=r"^partitions: "):
        check_partitions(value)


def test_what_may_hold_a_job_is_passed_on() -> None:
    leases = [lease(), lease("k")]
    assert check_settled("leases", leases, Lease) == (tuple(leases), [])
    assert check_settled("leases", [], Lease) == ((), [])
    failures = [Failure(lease=one) for one in leases]
    assert check_settled("failures", failures, Failure) == (tuple(failures), [])


@pytest.mark.parametrize(
    "forged",
    [lease(token=""), lease(token="0" * 31 + "\x01"), lease("\x00"), lease("a\x01b"), *FAR_AWAY],
)
def test_what_no_lease_call_can_have_given_is_refused_without_asking_the_store(forged: Lease) -> None:
    real = lease()
    assert check_settled("leases", [forged, real], Lease) == ([real], [forged])
    done = Completion(lease=real)
    assert check_settled("completions", [done, Completion(lease=forged)], Completion) == ([done], [forged])


@pytest.mark.parametrize(
    "item",
    [
        *(None, 5, "lease", lease(job=None), lease(job="j"), lease(token=None), lease(token=b"x")),
        Failure(lease=lease()),
        *(lease_of(queue_version=Spoken(2)), lease_of(partition=Spoken(7)), lease_of(partition="0")),
    ],
)
def test_what_is_no_lease_is_an_error_before_anything_is_touched(item: Any) -> None:
    with pytest.raises(ConfigError, match=r"^leases: "):
        check_settled("leases", [lease(), item], Lease)


def test_a_completion_of_what_is_no_lease_is_an_error() -> None:
    real = Completion(lease=lease())
    with pytest.raises(ConfigError, match=r"^completions: "):
        check_settled("completions", [real, replace(real, lease=5)], Completion)  # type: ignore[arg-type]  # the point
