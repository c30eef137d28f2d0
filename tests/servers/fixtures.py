"""
Servers as pytest fixtures. Every worker of xdist starts its own, so workers never meet.

redis_url, postgres_url       a running server that all tests of this process share; the database is this process's own
redis_prefix                  a key prefix of one test's own
new_redis_server(**options)   a started server of one test's own: to kill, freeze and restart
new_postgres_server(**options)
redis_cluster                 a cluster of three nodes that all tests of this process share
new_redis_cluster(**options), new_sentinel_group(**options)
new_pgbouncer(url, **options) a pgbouncer before the server of a URL
new_proxy(url)                a proxy of faults before a server

A test marked `every_flavour` runs once on each server found, with further="long" on all but the first only in the long
run; the others on the first. Without any server a test is
skipped with the reason, and fails where CI is set.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn, TypeVar

import pytest

from scheduler.urls import without_password
from servers import binaries, databases, flavours
from servers.flavours import Absent, AnyPostgres, AnyRedis, Candidate, Flavour, first, program
from servers.pgbouncer import PgBouncer
from servers.proxy import Proxy
from servers.redis_cluster import RedisCluster
from servers.redis_sentinel import SentinelGroup
from servers.server import Server

S = TypeVar("S", bound=Server)

_CANDIDATES: dict[str, Callable[[], Sequence[Candidate[AnyRedis]] | Sequence[Candidate[AnyPostgres]]]] = {
    "redis_flavour": flavours.redis,
    "postgres_flavour": flavours.postgres,
}


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", "every_flavour(further): on each server found, all but the first marked so")


def pytest_report_header() -> list[str]:
    """Which servers the tests will use, and how to choose others."""
    chosen = os.environ.get(flavours.ROUTE)
    how = f"{flavours.ROUTE}={chosen}" if chosen else f"choose by {flavours.ROUTE}={'|'.join(flavours.ROUTES)}"
    found = {"Redis": _named(flavours.redis()), "PostgreSQL": _named(flavours.postgres())}
    return [f"{kind}: {name} ({how})" for kind, name in found.items()]


def _named(candidates: Sequence[Candidate[S]]) -> str:
    for candidate in candidates:
        if candidate.is_slow:  # looking may pull an image, which is left until a test needs it
            return f"{candidate.name}, where the engine has it"
        found = candidate.look()
        if isinstance(found, Flavour):
            return found.name if found.url is None else f"{found.name}: {without_password(found.url)}"
    return "none found"


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test that needs a server `integration`."""
    for item in items:
        if isinstance(item, pytest.Function) and not _CANDIDATES.keys().isdisjoint(item.fixturenames):
            item.add_marker("integration")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests marked `every_flavour` on each server found, where it says so on further ones only in the long run."""
    marker = metafunc.definition.get_closest_marker("every_flavour")
    if marker is None:
        return
    further = [getattr(pytest.mark, marker.kwargs["further"])] if "further" in marker.kwargs else []
    for fixture, candidates in _CANDIDATES.items():
        if fixture in metafunc.fixturenames and (there := [one for one in candidates() if one.may_be_there]):
            names = [one.name.replace(" ", "-") for one in there]
            values = [pytest.param(one, marks=further if number else []) for number, one in enumerate(there)]
            metafunc.parametrize(fixture, values, indirect=True, scope="session", ids=names)


def _chosen(request: pytest.FixtureRequest, candidates: Sequence[Candidate[S]]) -> Flavour[S]:
    candidate: Candidate[S] | None = getattr(request, "param", None)
    found = first(candidates) if candidate is None else candidate.look()
    if isinstance(found, Flavour):
        return found
    if candidate is None:
        _do_without(found.reason)
    pytest.skip(found.reason)  # in CI too: a further version


def _do_without(reason: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(f"CI must run this test, but {reason}")
    pytest.skip(reason)


class SharedServers:
    """The servers that run for the whole session, each started when first asked for."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._urls: dict[str, str] = {}

    def url(self, flavour: Flavour[S]) -> str:
        """The URL of the one server of this flavour."""
        if flavour.url is not None:
            return flavour.url
        if flavour.name not in self._urls:
            server = flavour.build()
            self._stack.enter_context(server)
            self._urls[flavour.name] = server.url
        return self._urls[flavour.name]


@pytest.fixture(scope="session")
def shared_servers() -> Iterator[SharedServers]:
    """The servers that run for the whole session."""
    with ExitStack() as stack:
        yield SharedServers(stack)


@pytest.fixture(scope="session")
def redis_flavour(request: pytest.FixtureRequest) -> Flavour[AnyRedis]:
    """Which Redis or Valkey the test runs on."""
    return _chosen(request, flavours.redis())


@pytest.fixture(scope="session")
def postgres_flavour(request: pytest.FixtureRequest) -> Flavour[AnyPostgres]:
    """Which PostgreSQL the test runs on."""
    return _chosen(request, flavours.postgres())


@pytest.fixture(scope="session")
def redis_url(redis_flavour: Flavour[AnyRedis], shared_servers: SharedServers) -> str:
    """A running Redis or Valkey that all tests of this process share."""
    return shared_servers.url(redis_flavour)


@pytest.fixture(scope="session")
def postgres_url(postgres_flavour: Flavour[AnyPostgres], shared_servers: SharedServers) -> Iterator[str]:
    """An empty database of this process's own on a running PostgreSQL."""
    server = shared_servers.url(postgres_flavour)
    name = f"scheduler_test_{uuid.uuid4().hex[:12]}"
    yield databases.create(server, name)
    databases.drop(server, name)


@pytest.fixture
def redis_prefix() -> str:
    """A key prefix that nobody else uses."""
    return f"test-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def new_redis_server(redis_flavour: Flavour[AnyRedis]) -> Iterator[Callable[..., AnyRedis]]:
    """Starts a Redis or Valkey of this test's own, with the options of `RedisServer`."""
    with ExitStack() as stack:
        yield _starter(stack, redis_flavour)


@pytest.fixture
def new_postgres_server(postgres_flavour: Flavour[AnyPostgres]) -> Iterator[Callable[..., AnyPostgres]]:
    """Starts a PostgreSQL of this test's own, with the options of `PostgresServer`."""
    with ExitStack() as stack:
        yield _starter(stack, postgres_flavour)


def _starter(stack: ExitStack, flavour: Flavour[S]) -> Callable[..., S]:
    def start(**options: object) -> S:
        try:
            server = flavour.build(**options)
        except LookupError as error:  # in CI too: who gives a URL there has chosen so
            pytest.skip(str(error))
        stack.enter_context(server)
        return server

    return start


@pytest.fixture(scope="session")
def redis_cluster(redis_flavour: Flavour[AnyRedis]) -> Iterator[RedisCluster]:
    """A running cluster of three nodes that all tests of this process share."""
    with RedisCluster(_program(redis_flavour)) as cluster:
        yield cluster


@pytest.fixture
def new_redis_cluster(redis_flavour: Flavour[AnyRedis]) -> Iterator[Callable[..., RedisCluster]]:
    """Starts a cluster of this test's own, with the options of `RedisCluster`."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(RedisCluster(_program(redis_flavour), **options))


@pytest.fixture
def new_sentinel_group(redis_flavour: Flavour[AnyRedis]) -> Iterator[Callable[..., SentinelGroup]]:
    """Starts a master, replicas and Sentinels of this test's own, with the options of `SentinelGroup`."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(SentinelGroup(_program(redis_flavour), **options))


def _program(flavour: Flavour[AnyRedis]) -> Path:
    """The flavour's program, or the first other one: processes that find each other do not live in containers."""
    found = flavour.programs or program(flavours.redis_on_disk())
    if isinstance(found, Absent):
        _do_without(found.reason)
    return found


@pytest.fixture
def new_pgbouncer() -> Iterator[Callable[..., PgBouncer]]:
    """Starts a pgbouncer before the server of a URL, with the options of `PgBouncer`; skips where there is none."""
    found = binaries.pgbouncer()
    if isinstance(found, str):
        pytest.skip(found)  # in CI too: it cannot be had by pip
    with ExitStack() as stack:
        yield lambda url, **options: stack.enter_context(PgBouncer(found.path, url, **options))


@pytest.fixture
def new_proxy() -> Iterator[Callable[[str], Proxy]]:
    """Puts a proxy of faults before the server of a URL."""
    with ExitStack() as stack:
        yield lambda url: stack.enter_context(Proxy(url))
