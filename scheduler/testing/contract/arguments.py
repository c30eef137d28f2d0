"""Bad arguments are refused with a clear error that names the field, before anything is touched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scheduler.errors import ConfigError
from scheduler.identity import new_token
from scheduler.states import JobState
from scheduler.testing.rig import LONG, Rig

_QUEUES: list[Any] = ["default", [], (), [1], [None], [b"default"], [""], ["ok", "a\nb"]]
_LIMITS: list[Any] = [0, -1, 10_001, 10**30, True, 1.0, "1", None]
_DURATIONS: list[Any] = [0, -1, 0.0001, 1e12, 10**400, float("nan"), float("inf"), True, "1", None]
_TOKENS: list[Any] = ["", "g" * 32, "a" * 31, "a" * 33, "A" * 32, "a" * 32 + "\n", None, b"a" * 32, 1]
_IDS: list[Any] = [[1], [None], [b"j"], ["ok", 1.5]]
_NAMES: list[Any] = [None, 1, b"queue", ["queue"]]

_BY_QUEUES: dict[str, Callable[[Rig, Any], object]] = {
    "promote_due": lambda rig, queues: rig.backend.promote_due(queues, 1),
    "recover_expired": lambda rig, queues: rig.backend.recover_expired(queues, 1),
    "trim": lambda rig, queues: rig.backend.trim(queues, 1),
    "lease": lambda rig, queues: _lease(rig, queues=queues),
}
_BY_LIMIT: dict[str, Callable[[Rig, Any], object]] = {
    "promote_due": lambda rig, limit: rig.backend.promote_due([rig.queue], limit),
    "recover_expired": lambda rig, limit: rig.backend.recover_expired([rig.queue], limit),
    "trim": lambda rig, limit: rig.backend.trim([rig.queue], limit),
    "lease": lambda rig, limit: _lease(rig, limit=limit),
    "purge": lambda rig, limit: rig.backend.purge(rig.queue, JobState.READY, limit),
    "list": lambda rig, limit: rig.backend.list(rig.queue, JobState.READY, limit=limit),
}
_BY_IDS: dict[str, Callable[[Rig, Any], object]] = {
    "get": lambda rig, ids: rig.backend.get(rig.queue, ids),
    "cancel": lambda rig, ids: rig.backend.cancel(rig.queue, ids),
    "requeue": lambda rig, ids: rig.backend.requeue(rig.queue, ids),
}
_BY_QUEUE: dict[str, Callable[[Rig, Any], object]] = {
    "get": lambda rig, queue: rig.backend.get(queue, ["j"]),
    "cancel": lambda rig, queue: rig.backend.cancel(queue, ["j"]),
    "requeue": lambda rig, queue: rig.backend.requeue(queue, ["j"]),
    "list": lambda rig, queue: rig.backend.list(queue, JobState.READY),
    "pause": lambda rig, queue: rig.backend.pause(queue),
    "resume": lambda rig, queue: rig.backend.resume(queue),
    "purge": lambda rig, queue: rig.backend.purge(queue, JobState.READY, 1),
}


def _lease(rig: Rig, **changes: Any) -> object:
    arguments = {"queues": [rig.queue], "token": new_token(), "worker_id": "w", "duration": LONG, "limit": 1, **changes}
    return rig.backend.lease(arguments.pop("queues"), **arguments)


def _check_refused(rig: Rig, field: str, call: Callable[[], object]) -> None:
    """Refused, by its field, and the one ready job is as it was."""
    job = rig.add()
    rig.promote()
    before = rig.job(job.id)
    with pytest.raises(ConfigError) as refusal:
        call()
    assert refusal.value.field == field
    assert rig.job(job.id) == before
    assert rig.counts() == {state: int(state is JobState.READY) for state in JobState}


class ArgumentsContract:
    @pytest.mark.parametrize("queues", _QUEUES, ids=repr)
    @pytest.mark.parametrize("method", sorted(_BY_QUEUES))
    def test_queues_are_a_sequence_of_names(self, rig: Rig, method: str, queues: Any) -> None:
        _check_refused(rig, "queues", lambda: _BY_QUEUES[method](rig, queues))

    @pytest.mark.parametrize("limit", _LIMITS, ids=repr)
    @pytest.mark.parametrize("method", sorted(_BY_LIMIT))
    def test_a_limit_is_a_whole_number_from_1_to_10_000(self, rig: Rig, method: str, limit: Any) -> None:
        _check_refused(rig, "limit", lambda: _BY_LIMIT[method](rig, limit))

    @pytest.mark.parametrize("method", sorted(_BY_LIMIT))
    def test_the_largest_limit_is_taken(self, rig: Rig, method: str) -> None:
        rig.add_many(3)
        _BY_LIMIT[method](rig, 10_000)

    @pytest.mark.parametrize("duration", _DURATIONS, ids=repr)
    def test_a_duration_is_a_number_from_a_millisecond_to_a_year(self, rig: Rig, duration: Any) -> None:
        _check_refused(rig, "duration", lambda: _lease(rig, duration=duration))
        held = rig.lease_one()
        with pytest.raises(ConfigError) as refusal:
            rig.backend.renew([held], duration)
        assert refusal.value.field == "duration"
        assert rig.job(held.job.id).lease_expires_at == held.expires_at

    @pytest.mark.parametrize("token", _TOKENS, ids=repr)
    def test_a_token_is_32_hexadecimal_digits(self, rig: Rig, token: Any) -> None:
        _check_refused(rig, "token", lambda: _lease(rig, token=token))

    @pytest.mark.parametrize("owner", _NAMES, ids=repr)
    def test_an_owner_is_a_name(self, rig: Rig, owner: Any) -> None:
        _check_refused(rig, "worker_id", lambda: _lease(rig, worker_id=owner))

    @pytest.mark.parametrize("ids", _IDS, ids=repr)
    @pytest.mark.parametrize("method", sorted(_BY_IDS))
    def test_ids_are_texts(self, rig: Rig, method: str, ids: Any) -> None:
        _check_refused(rig, "ids", lambda: _BY_IDS[method](rig, ids))

    @pytest.mark.parametrize("queue", _NAMES, ids=repr)
    @pytest.mark.parametrize("method", sorted(_BY_QUEUE))
    def test_a_queue_is_a_name(self, rig: Rig, method: str, queue: Any) -> None:
        _check_refused(rig, "queue", lambda: _BY_QUEUE[method](rig, queue))
