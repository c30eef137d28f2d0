"""Wrong constructor arguments of backends are refused with the name of the field."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from scheduler import Backend, ConfigError, Retention
from scheduler.testing import ManualClock
from scheduler_backends.memory import MemoryBackend
from scheduler_backends.postgres import PostgresBackend
from scheduler_backends.redis import RedisBackend
from scheduler_backends.sqlite import SqliteBackend

NOWHERE = "127.0.0.1:1"  # nothing is connected when a backend is built
BUILD: dict[str, Callable[..., Backend]] = {
    "memory": MemoryBackend,
    "sqlite": partial(SqliteBackend, Path("never.db")),
    "redis": partial(RedisBackend, f"redis://{NOWHERE}"),
    "postgres": partial(PostgresBackend, f"postgresql://{NOWHERE}/test"),
}


@pytest.mark.parametrize("store", BUILD)
@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("retention", wrong) for wrong in (3_600, {"succeeded": 60.0}, 0, "1h", Retention)),
        *(("clock", wrong) for wrong in (3_600, "now", (), ManualClock)),
    ],
    ids=str,
)
def test_an_argument_of_the_wrong_type_is_refused_when_the_backend_is_built(store: str, field: str, value: Any) -> None:
    with pytest.raises(ConfigError) as refusal:
        BUILD[store](**{field: value})
    assert refusal.value.field == field


@pytest.mark.parametrize("store", BUILD)
@pytest.mark.parametrize("value", [3_600, ManualClock], ids=str)
def test_so_is_a_clock_that_is_set_later(store: str, value: Any) -> None:
    backend: Any = BUILD[store]()
    with pytest.raises(ConfigError) as refusal:
        backend.clock = value
    assert refusal.value.field == "clock"


@pytest.mark.parametrize("kind", [MemoryBackend, SqliteBackend, RedisBackend, PostgresBackend])
@pytest.mark.parametrize("url", [None, 5, ["memory://"], str], ids=str)
def test_a_url_is_text(kind: type[Backend], url: Any) -> None:
    with pytest.raises(ConfigError):
        kind.from_url(url)


@pytest.mark.parametrize("value", [True, {}, "prefix"], ids=repr)
def test_a_configuration_of_redis_is_one(value: Any) -> None:
    with pytest.raises(ConfigError) as refusal:
        RedisBackend(f"redis://{NOWHERE}", value)
    assert refusal.value.field == "config"


@pytest.mark.parametrize("field", ["schema", "prefix", "migrate", "pgbouncer"])
def test_none_is_no_value_of_an_option_of_postgres(field: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        BUILD["postgres"](**{field: None})
    assert refusal.value.field == field
