"""Configurations refuse invalid values when they are built, and name the field."""

from __future__ import annotations

import dataclasses
import math
import os
import pickle
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.config import ProducerConfig, WorkerConfig
from scheduler.errors import ConfigError
from scheduler.limits import check_kind
from scheduler.retry import RetryPolicy

NO_NUMBERS: Sequence[object] = (-1, -0.001, math.nan, math.inf, -math.inf, 10**400, True, None, "1")
INTERVALS = ("poll_interval", "lease_duration", "heartbeat_interval", "recover_interval", "unknown_type_delay")
GRACES = ("shutdown_grace", "timeout_grace", "unknown_type_timeout")  # zero is allowed


def refused_field(kind: type[ProducerConfig | WorkerConfig], **options: object) -> str:
    with pytest.raises(ConfigError) as caught:
        kind(**options)  # type: ignore[arg-type]  # what the tests are about
    assert isinstance(caught.value, ValueError)
    return caught.value.field


# Producer


def test_a_producers_defaults() -> None:
    config = ProducerConfig()
    assert (config.default_queue, config.default_max_retries, config.default_timeout) == ("default", 3, 30.0)
    assert (config.retry_policy, config.max_payload) == (None, 262_144)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("default_queue", ""),
        ("default_queue", "x" * 201),
        ("default_queue", "a\n"),
        ("default_queue", None),
        *(("default_max_retries", value) for value in (*NO_NUMBERS, 1.0, 1_000_001)),
        *(("default_timeout", value) for value in (*NO_NUMBERS, 0)),
        ("retry_policy", 3),
        ("retry_policy", "exponential"),
        ("retry_policy", RetryPolicy),
        *(("max_payload", value) for value in (*NO_NUMBERS, 1.0, 2**30)),
    ],
    ids=lambda value: ascii(value)[:25],
)
def test_nonsense_for_a_producer_is_refused_and_named(field: str, value: object) -> None:
    assert refused_field(ProducerConfig, **{field: value}) == field


def test_zero_retries_are_a_lawful_default() -> None:
    assert ProducerConfig(default_max_retries=0).default_max_retries == 0


# Worker


def test_a_workers_defaults() -> None:
    config = WorkerConfig()
    assert (config.queues, config.concurrency, config.batch_size, config.queue_buffer) == (("default",), 10, 64, 1)
    assert (config.poll_interval, config.lease_duration, config.heartbeat_interval) == (1.0, 30.0, 10.0)
    assert (config.recover_interval, config.shutdown_grace, config.timeout_grace) == (10.0, 25.0, 1.0)
    assert (config.unknown_type_delay, config.unknown_type_timeout) == (30.0, 86_400.0)
    assert (config.held_limit, config.stuck_limit, config.retry_policy) == (20, 10, RetryPolicy())


def test_every_worker_has_a_name_of_its_own() -> None:
    first, second = WorkerConfig().worker_id, WorkerConfig().worker_id
    assert first != second
    assert f":{os.getpid()}:" in first


def test_the_readmes_example_is_valid() -> None:
    config = WorkerConfig(
        concurrency=32,
        batch_size=64,
        queue_buffer=2,
        max_in_flight=128,
        poll_interval=0.005,
        heartbeat_interval=0.05,
        lease_duration=0.5,
    )
    assert config.held_limit == 128


@pytest.mark.parametrize("heartbeat", [0.501, 1.0, 2.0])
def test_two_heartbeats_must_fit_in_a_lease(heartbeat: float) -> None:
    """Guarantee 5, as do those below."""
    assert refused_field(WorkerConfig, lease_duration=1.0, heartbeat_interval=heartbeat) == "heartbeat_interval"


def test_exactly_two_heartbeats_fit() -> None:
    WorkerConfig(lease_duration=1.0, heartbeat_interval=0.5)


@given(st.floats(0.001, 1e5), st.floats(0.001, 1e5))
def test_no_accepted_worker_can_lose_its_leases_between_two_heartbeats(lease: float, heartbeat: float) -> None:
    try:
        config = WorkerConfig(lease_duration=lease, heartbeat_interval=heartbeat)
    except ConfigError:
        return
    assert 0 < config.heartbeat_interval * 2 <= config.lease_duration < math.inf


@pytest.mark.parametrize("field", INTERVALS)
@pytest.mark.parametrize("value", [0, *NO_NUMBERS], ids=lambda value: ascii(value)[:10])
def test_an_interval_is_finite_and_positive(field: str, value: object) -> None:
    assert refused_field(WorkerConfig, **{field: value}) == field


@pytest.mark.parametrize("field", GRACES)
@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda value: ascii(value)[:10])
def test_a_grace_is_finite_and_not_negative(field: str, value: object) -> None:
    assert refused_field(WorkerConfig, **{field: value}) == field
    WorkerConfig(**{field: 0.0})  # type: ignore[arg-type]  # a number


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("worker_id", ""),
        ("worker_id", "x" * 201),
        ("worker_id", "a\nb"),
        ("worker_id", None),
        ("queues", "default"),
        ("queues", ()),
        ("queues", ("",)),
        ("queues", (None,)),
        *(("queues", ("mail", name)) for name in ("*", "mail*", "mail.?", "mail[12]")),
        *(("log_errors", value) for value in ("messages", None, [])),
        *((name, value) for name in ("concurrency", "batch_size") for value in (0, *NO_NUMBERS, 2.0, 10_001)),
        *(("queue_buffer", value) for value in (*NO_NUMBERS, 0.5, 1_001)),
        *(("max_in_flight", value) for value in (0, 9, -1, True, 20.0, "20", math.inf)),
        *(("max_stuck", value) for value in (0, -1, True, 1.0, "many", math.inf)),
        ("retry_policy", None),
        ("retry_policy", 3),
        ("retry_policy", RetryPolicy),
    ],
    ids=lambda value: ascii(value)[:25],
)
def test_nonsense_for_a_worker_is_refused_and_named(field: str, value: object) -> None:
    assert refused_field(WorkerConfig, **{field: value}) == field


def test_queues_are_kept_once_each_as_a_tuple() -> None:
    given_by_user = ["b", "a", "b"]
    config = WorkerConfig(queues=given_by_user)
    given_by_user.append("c")
    assert config.queues == ("b", "a")


def test_what_a_worker_may_hold() -> None:
    assert WorkerConfig(concurrency=4, queue_buffer=0).held_limit == 4
    assert WorkerConfig(concurrency=4, queue_buffer=3).held_limit == 16
    assert WorkerConfig(concurrency=4, queue_buffer=3, max_in_flight=4).held_limit == 4


def test_when_a_worker_gives_up() -> None:
    assert WorkerConfig(concurrency=4).stuck_limit == 4
    assert WorkerConfig(concurrency=4, max_stuck=1).stuck_limit == 1
    assert WorkerConfig(max_stuck=None).stuck_limit is None


def test_a_retry_policy_of_ones_own_is_taken() -> None:
    class Patient:
        def delay(self, attempt: int) -> float:
            return 60.0 * attempt

    assert WorkerConfig(retry_policy=Patient()).retry_policy.delay(2) == 120.0


def test_a_retry_policy_may_find_its_method_by_getattr() -> None:
    """As a mock or a lazy proxy does. isinstance() does not find it on Python 3.12 and later."""

    class Proxy:
        def __getattr__(self, name: str) -> object:
            return getattr(RetryPolicy.fixed(5.0), name)

    policy: Any = Proxy()
    assert WorkerConfig(retry_policy=policy).retry_policy.delay(2) == 5.0


def test_a_class_in_place_of_its_object_is_refused_with_advice() -> None:
    with pytest.raises(ConfigError, match="not the class RetryPolicy itself"):
        WorkerConfig(retry_policy=RetryPolicy)  # type: ignore[arg-type]  # the point
    with pytest.raises(ConfigError, match="not the class int itself; pass an object of it"):
        check_kind("clock", int, str)


@pytest.mark.parametrize("config", [ProducerConfig(default_queue="mail"), WorkerConfig(queues=("mail",))])
def test_a_configuration_is_a_frozen_value_that_travels(config: ProducerConfig | WorkerConfig) -> None:
    """A supervisor passes it to the processes that it spawns."""
    assert pickle.loads(pickle.dumps(config)) == config  # noqa: S301 - made on this very line
    assert dataclasses.replace(config) == config
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.retry_policy = RetryPolicy()  # type: ignore[misc]  # what the test is about
