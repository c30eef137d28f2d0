"""memory:// URLs and the constructor's arguments."""

from __future__ import annotations

import pytest

from memory.moves import QUEUE, add
from scheduler.errors import ConfigError
from scheduler.plugins import backend_from_url
from scheduler.queues import Retention
from scheduler_backends.memory import MemoryBackend


@pytest.mark.parametrize("url", ["memory://", "memory", "Memory://"])
def test_a_plain_url_is_a_store_with_the_defaults(url: str) -> None:
    backend = backend_from_url(url)
    assert isinstance(backend, MemoryBackend)
    assert backend.retention == Retention()
    assert backend.topology(QUEUE).active.partitions == 1


def test_options_are_read_from_the_query() -> None:
    url = "memory://?partitions=8&active_version=3&retain_succeeded=60&retain_cancelled=5.5&retain_dead=7"
    backend = MemoryBackend.from_url(url)
    assert backend.retention == Retention(succeeded=60.0, cancelled=5.5, dead=7.0)
    active = backend.topology(QUEUE).active
    assert (active.version, active.partitions) == (3, 8)
    assert add(backend)[0].job.queue_version == 3


def test_each_url_opens_a_store_of_its_own() -> None:
    first, second = MemoryBackend.from_url("memory://"), MemoryBackend.from_url("memory://")
    add(first)
    assert second.stats() == []


@pytest.mark.parametrize(
    ("url", "field"),
    [
        ("memory://host", "url"),
        ("memory:///path", "url"),
        ("memory://?partition=8", "partition"),
        ("memory://?partitions=8&partitions=9", "partitions"),
        ("memory://?partitions=eight", "partitions"),
        ("memory://?partitions=", "partitions"),
        ("memory://?partitions=0", "partitions"),
        ("memory://?partitions=257", "partitions"),
        ("memory://?active_version=0", "active_version"),
        ("memory://?retain_dead=nan", "retention.dead"),
        ("memory://?retain_dead=-1", "retention.dead"),
    ],
)
def test_what_cannot_be_understood_is_named(url: str, field: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        MemoryBackend.from_url(url)
    assert refusal.value.field == field


@pytest.mark.parametrize("value", [0, 257, True, 1.5, "8", None])
def test_an_impossible_number_of_partitions_is_refused(value: object) -> None:
    with pytest.raises(ConfigError) as refusal:
        MemoryBackend(partitions=value)  # type: ignore[arg-type]
    assert refusal.value.field == "partitions"
