"""Connections of a caller that cannot be used, the same on both SQL stores, and the error of `enqueue_with` on each."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any

import django
import sqlalchemy as sa
from django.conf import settings
from django.db.utils import ConnectionHandler
from sqlalchemy.orm import Session

from scheduler.errors import BackendError, BackendUnavailable, ConfigError


def closed(engine: sa.Engine, _: sa.URL, stack: ExitStack) -> sa.Connection:
    connection = engine.connect()
    connection.close()
    return connection


def invalidated(engine: sa.Engine, _: sa.URL, stack: ExitStack) -> sa.Connection:
    connection = stack.enter_context(engine.connect())
    connection.begin()
    connection.invalidate()
    return connection


def unbound_session(_: sa.Engine, __: sa.URL, stack: ExitStack) -> Session:
    return stack.enter_context(Session())


def session_with_a_lost_connection(engine: sa.Engine, _: sa.URL, stack: ExitStack) -> Session:
    session = stack.enter_context(Session(engine))
    session.connection().invalidate()
    return session


def session_to_a_database_that_is_away(_: sa.Engine, away: sa.URL, stack: ExitStack) -> Session:
    return stack.enter_context(Session(sa.create_engine(away)))


def session_in_an_empty_pool(engine: sa.Engine, _: sa.URL, stack: ExitStack) -> Session:
    small = sa.create_engine(engine.url, poolclass=sa.QueuePool, pool_size=1, max_overflow=0, pool_timeout=0.01)
    stack.callback(small.dispose)
    stack.enter_context(small.connect())
    return stack.enter_context(Session(small))


def django_to_a_database_that_is_away(_: sa.Engine, away: sa.URL, stack: ExitStack) -> Any:
    if not settings.configured:
        settings.configure()
        django.setup()
    vendor = "sqlite3" if away.drivername.startswith("sqlite") else "postgresql"
    database = {"ENGINE": f"django.db.backends.{vendor}", "NAME": away.database, "HOST": away.host, "PORT": away.port}
    return stack.enter_context(closing(ConnectionHandler({"default": database})["default"]))


def closed_driver(engine: sa.Engine, _: sa.URL, stack: ExitStack) -> Any:
    connection = engine.raw_connection()
    driver = connection.driver_connection
    connection.detach()
    connection.close()
    return driver


BROKEN: dict[Callable[[sa.Engine, sa.URL, ExitStack], Any], type[BackendError | ConfigError]] = {
    closed: ConfigError,
    invalidated: BackendUnavailable,
    unbound_session: ConfigError,
    session_with_a_lost_connection: BackendUnavailable,
    session_to_a_database_that_is_away: BackendUnavailable,
    session_in_an_empty_pool: BackendUnavailable,
    django_to_a_database_that_is_away: BackendUnavailable,
    closed_driver: BackendError,
}
PAYLOAD = b"sesame-77c1"
"""What no error may show."""
