"""The arguments of the backend, which a URL may have as options too."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlencode

import sqlalchemy as sa

from scheduler.limits import check_count, check_kind, check_number
from scheduler.queues import Retention
from scheduler.urls import split_options
from scheduler_backends.postgres.urls import OF_THE_DRIVER, database_url
from scheduler_backends.sql.options import check_identifier, parsers_of, with_options


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """See `PostgresBackend`, which has the same defaults. `ConfigError` names a wrong one."""

    retention: Retention = field(default_factory=Retention)
    schema: str = "scheduler"
    prefix: str = ""
    migrate: bool = False
    timeout: float = 10.0
    pool_size: int = 10
    pool_timeout: float = 5.0
    pgbouncer: bool = False
    listen_url: str | None = None

    def __post_init__(self) -> None:
        """Check every field."""
        check_kind("retention", self.retention, Retention)
        for name in ("migrate", "pgbouncer"):
            check_kind(name, getattr(self, name), bool)
        check_identifier("schema", self.schema)
        if self.prefix != "":
            check_identifier("prefix", self.prefix)
        check_number("timeout", self.timeout, at_least=0.01, at_most=3_600.0)
        check_number("pool_timeout", self.pool_timeout, at_most=3_600.0)
        check_count("pool_size", self.pool_size, at_least=1, at_most=1_000)

    def within(self, url: str) -> tuple[sa.URL, Options]:
        """Return *url* for the driver, and these options with those of the URL."""
        place, found = split_options(url, {**parsers_of(Options), **OF_THE_DRIVER})
        driver = {name: str(found.pop(name)) for name in OF_THE_DRIVER if name in found}
        return database_url("url", f"{place}?{urlencode(driver)}" if driver else place), with_options(self, found)
