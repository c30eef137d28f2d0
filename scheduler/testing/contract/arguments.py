"""Bad arguments are refused with a clear error that names the field, before anything is touched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from scheduler.errors import ConfigError
from scheduler.identity import new_token
from scheduler.jobs import NewJob
from scheduler.leases import Completion, Failure, Lease
from scheduler.states import JobState
from scheduler.testing.harness import LONG, BackendHarness

_QUEUES: list[Any] = ["default", [], (), [1], [None], [b"default"], [""], ["ok", "a\nb"]]
_LIMITS: list[Any] = [0, -1, 10_001, 10**30, True, 1.0, "1", None]
_DURATIONS: list[Any] = [0, -1, 0.0001, 1e12, 10**400, float("nan"), float("inf"), True, "1", None]
_TOKENS: list[Any] = ["", "g" * 32, "a" * 31, "a" * 33, "A" * 32, "a" * 32 + "\n", None, b"a" * 32, 1]
_IDS: list[Any] = [[1], [None], [b"j"], ["ok", 1.5]]
_NAMES: list[Any] = [None, 1, b"queue", ["queue"]]
_NO_LEASED_JOBS: list[tuple[str, Any]] = [
    *[("queue", None), ("queue", 5), ("id", None), ("id", 5)],
    *[("queue_version", None), ("queue_version", "1"), ("queue_version", [1])],
    *[("partition", None), ("partition", "0"), ("partition", {})],
]

_BY_QUEUES: dict[str, Callable[[BackendHarness, Any], object]] = {
    "promote_due": lambda harness, queues: harness.backend.promote_due(queues, 1),
    "recover_expired": lambda harness, queues: harness.backend.recover_expired(queues, 1),
    "trim": lambda harness, queues: harness.backend.trim(queues, 1),
    "lease": lambda harness, queues: _lease(harness, queues=queues),
}
_BY_LIMIT: dict[str, Callable[[BackendHarness, Any], object]] = {
    "promote_due": lambda harness, limit: harness.backend.promote_due([harness.queue], limit),
    "recover_expired": lambda harness, limit: harness.backend.recover_expired([harness.queue], limit),
    "trim": lambda harness, limit: harness.backend.trim([harness.queue], limit),
    "lease": lambda harness, limit: _lease(harness, limit=limit),
    "purge": lambda harness, limit: harness.backend.purge(harness.queue, JobState.READY, limit),
    "list": lambda harness, limit: harness.backend.list(harness.queue, JobState.READY, limit=limit),
}
_BY_IDS: dict[str, Callable[[BackendHarness, Any], object]] = {
    "get": lambda harness, ids: harness.backend.get(harness.queue, ids),
    "cancel": lambda harness, ids: harness.backend.cancel(harness.queue, ids),
    "requeue": lambda harness, ids: harness.backend.requeue(harness.queue, ids),
}
_BY_QUEUE: dict[str, Callable[[BackendHarness, Any], object]] = {
    "get": lambda harness, queue: harness.backend.get(queue, ["j"]),
    "cancel": lambda harness, queue: harness.backend.cancel(queue, ["j"]),
    "requeue": lambda harness, queue: harness.backend.requeue(queue, ["j"]),
    "list": lambda harness, queue: harness.backend.list(queue, JobState.READY),
    "pause": lambda harness, queue: harness.backend.pause(queue),
    "resume": lambda harness, queue: harness.backend.resume(queue),
    "purge": lambda harness, queue: harness.backend.purge(queue, JobState.READY, 1),
}


_GIVE_UP: dict[str, Callable[[BackendHarness, Sequence[Lease]], object]] = {
    "renew": lambda harness, leases: harness.backend.renew(leases, 2 * LONG),
    "complete": lambda harness, leases: harness.backend.complete([Completion(lease=lease) for lease in leases]),
    "retry": lambda harness, leases: harness.backend.retry([Failure(lease=lease) for lease in leases]),
    "bury": lambda harness, leases: harness.backend.bury([Failure(lease=lease) for lease in leases]),
    "release": lambda harness, leases: harness.backend.release(leases),
}


def _lease(harness: BackendHarness, **changes: Any) -> object:
    arguments = {
        "queues": [harness.queue],
        "token": new_token(),
        "worker_id": "w",
        "duration": LONG,
        "limit": 1,
        **changes,
    }
    return harness.backend.lease(arguments.pop("queues"), **arguments)


def _check_refused(harness: BackendHarness, field: str, call: Callable[[], object]) -> None:
    """Check that the call is refused with its field, and that the ready job has not changed."""
    job = harness.add()
    harness.promote()
    before = harness.job(job.id)
    with pytest.raises(ConfigError) as refusal:
        call()
    assert refusal.value.field == field
    assert harness.job(job.id) == before
    assert harness.counts() == {state: int(state is JobState.READY) for state in JobState}


@dataclass(frozen=True, kw_only=True)
class _Unchecked(NewJob):
    """A job whose class has left out the checks."""

    priority: Any = 9

    def __post_init__(self) -> None:
        object.__setattr__(self, "nonce", "0" * 16)


@dataclass(frozen=True, kw_only=True)
class _UncheckedFailure(Failure):
    delay: Any = "soon"

    def __post_init__(self) -> None: ...


class ArgumentsContract:
    def test_a_job_of_a_subclass_is_refused_since_its_class_may_have_left_out_the_checks(
        self, harness: BackendHarness
    ) -> None:
        unchecked = _Unchecked(type="t", queue=harness.queue, id="j", payload=b"", metadata={})
        _check_refused(harness, "jobs", lambda: harness.backend.enqueue([harness.new(), unchecked]))

    @pytest.mark.parametrize("method", ["retry", "bury"])
    def test_so_is_a_failure(self, harness: BackendHarness, method: str) -> None:
        held = harness.leased()
        unchecked = _UncheckedFailure(lease=held)
        with pytest.raises(ConfigError) as refusal:
            getattr(harness.backend, method)([unchecked])
        assert refusal.value.field == "failures"
        assert harness.job(held.job.id).state is JobState.LEASED

    @pytest.mark.parametrize("method", ["renew", "complete", "retry", "bury", "release"])
    @pytest.mark.parametrize(("field", "value"), _NO_LEASED_JOBS, ids=repr)
    def test_a_lease_names_its_job_as_it_was_leased(
        self, harness: BackendHarness, method: str, field: str, value: Any
    ) -> None:
        held, other = harness.leased(), harness.leased()
        changes: dict[str, Any] = {field: value}
        forged = replace(held, job=replace(held.job, **changes))
        with pytest.raises(ConfigError) as refusal:
            _GIVE_UP[method](harness, [other, forged])
        assert refusal.value.field in ("leases", "completions", "failures")
        for lease in (held, other):
            assert harness.job(lease.job.id) == lease.job

    @pytest.mark.parametrize("method", ["complete", "retry", "bury", "release", "renew"])
    @pytest.mark.parametrize("field", ["queue_version", "partition"])
    @pytest.mark.parametrize("number", [-1, 2**63, 10**5_000], ids=["negative", "64 bits", "5000 digits"])
    def test_a_lease_with_an_impossible_version_or_partition_holds_nothing(
        self, harness: BackendHarness, method: str, field: str, number: int
    ) -> None:
        """No error of Python's comes out: it does not write numbers of so many digits."""
        held = harness.leased()
        changes: dict[str, Any] = {field: number}
        _GIVE_UP[method](harness, [replace(held, job=replace(held.job, **changes))])
        assert harness.job(held.job.id) == held.job

    def test_metadata_cannot_be_changed_once_it_has_been_checked(self, harness: BackendHarness) -> None:
        new = harness.new(metadata={"a": "1"})
        metadata: Any = new.metadata
        with pytest.raises(TypeError):
            metadata["a"] = 5
        harness.enqueue(new)
        assert dict(harness.job(new.id).metadata) == {"a": "1"}

    @pytest.mark.parametrize("queues", _QUEUES, ids=repr)
    @pytest.mark.parametrize("method", sorted(_BY_QUEUES))
    def test_queues_are_a_sequence_of_names(self, harness: BackendHarness, method: str, queues: Any) -> None:
        _check_refused(harness, "queues", lambda: _BY_QUEUES[method](harness, queues))

    @pytest.mark.parametrize("limit", _LIMITS, ids=repr)
    @pytest.mark.parametrize("method", sorted(_BY_LIMIT))
    def test_a_limit_is_a_whole_number_from_1_to_10_000(self, harness: BackendHarness, method: str, limit: Any) -> None:
        _check_refused(harness, "limit", lambda: _BY_LIMIT[method](harness, limit))

    @pytest.mark.parametrize("method", sorted(_BY_LIMIT))
    def test_the_largest_limit_is_taken(self, harness: BackendHarness, method: str) -> None:
        harness.add_many(3)
        _BY_LIMIT[method](harness, 10_000)

    @pytest.mark.parametrize("duration", _DURATIONS, ids=repr)
    def test_a_duration_is_a_number_from_a_millisecond_to_a_year(self, harness: BackendHarness, duration: Any) -> None:
        _check_refused(harness, "duration", lambda: _lease(harness, duration=duration))
        held = harness.lease_one()
        with pytest.raises(ConfigError) as refusal:
            harness.backend.renew([held], duration)
        assert refusal.value.field == "duration"
        assert harness.job(held.job.id).lease_expires_at == held.expires_at

    @pytest.mark.parametrize("token", _TOKENS, ids=repr)
    def test_a_token_is_32_hexadecimal_digits(self, harness: BackendHarness, token: Any) -> None:
        _check_refused(harness, "token", lambda: _lease(harness, token=token))

    @pytest.mark.parametrize("owner", _NAMES, ids=repr)
    def test_an_owner_is_a_name(self, harness: BackendHarness, owner: Any) -> None:
        _check_refused(harness, "worker_id", lambda: _lease(harness, worker_id=owner))

    @pytest.mark.parametrize("ids", _IDS, ids=repr)
    @pytest.mark.parametrize("method", sorted(_BY_IDS))
    def test_ids_are_texts(self, harness: BackendHarness, method: str, ids: Any) -> None:
        _check_refused(harness, "ids", lambda: _BY_IDS[method](harness, ids))

    @pytest.mark.parametrize("queue", _NAMES, ids=repr)
    @pytest.mark.parametrize("method", sorted(_BY_QUEUE))
    def test_a_queue_is_a_name(self, harness: BackendHarness, method: str, queue: Any) -> None:
        _check_refused(harness, "queue", lambda: _BY_QUEUE[method](harness, queue))
