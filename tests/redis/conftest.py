"""Backends below a prefix of each test's own, and a look behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from scheduler_backends.redis import RedisBackend, RedisConfig, errors
from scheduler_backends.redis.client.node import Node


@pytest.fixture(autouse=True)
def _warns_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an earlier test of this process has caused is not yet known, so it is logged."""
    monkeypatch.setattr(errors, "_logged_at", {})


@pytest.fixture
def new_backend(redis_prefix) -> Iterator[Callable[..., RedisBackend]]:
    """Opens backends on a URL or client; what is no argument of a backend is one of its configuration."""
    with ExitStack() as stack:

        def open_backend(url: object, **options: object) -> RedisBackend:
            ours = {name: options.pop(name) for name in ("retention", "clock") if name in options}
            backend = RedisBackend(url, RedisConfig(**{"prefix": redis_prefix, **options}), **ours)
            stack.callback(backend.close)
            return backend

        yield open_backend


@pytest.fixture
def backend(new_backend, redis_url) -> RedisBackend:
    """One partition, where a test need not think about them."""
    return new_backend(redis_url, partitions=1)


@pytest.fixture
def raw(redis_url) -> Iterator[redis.Redis]:
    """A plain client, to look and to do damage."""
    with client_of(redis_url) as client:
        yield client


def client_of(url: str) -> redis.Redis:
    """A client that sends nothing twice."""
    return redis.Redis.from_url(url, retry=Retry(NoBackoff(), 0))


@pytest.fixture
def trips(monkeypatch) -> list[int]:
    """One entry for each round trip from now on: how many commands it carried."""
    made: list[int] = []
    run = Node.run

    def counted(self, commands):
        made.append(len(commands))
        return run(self, commands)

    monkeypatch.setattr(Node, "run", counted)
    return made
