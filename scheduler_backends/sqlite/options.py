"""Options of the backend, given as arguments or in the URL."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from scheduler.errors import ConfigError
from scheduler.limits import check_kind, check_number
from scheduler.queues import Retention
from scheduler.urls import split_options
from scheduler_backends.sql.options import check_identifier, parsers_of, with_options
from scheduler_backends.sqlite.connection import Synchronous


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Checked arguments of `SqliteBackend`, which has the same defaults."""

    retention: Retention = field(default_factory=Retention)
    synchronous: Synchronous = "full"
    timeout: float = 5.0
    prefix: str = "scheduler_"
    migrate: bool = True

    def __post_init__(self) -> None:
        """Check every field. `ConfigError` names the invalid one."""
        check_kind("retention", self.retention, Retention)
        if self.synchronous not in ("full", "normal"):
            raise ConfigError("synchronous", "must be 'full' or 'normal'")
        check_number("timeout", self.timeout, at_least=0.001, at_most=3_600.0)
        check_identifier("prefix", self.prefix)
        check_kind("migrate", self.migrate, bool)

    def within(self, path_or_url: str | os.PathLike[str]) -> tuple[str, Options]:
        """Return the path, and these options merged with those of the URL. Raises `ConfigError` where they differ."""
        try:
            given = os.fsdecode(path_or_url)
        except TypeError:
            raise ConfigError("path", f"must be a path or a URL, not {type(path_or_url).__name__}") from None
        if not given.startswith("sqlite:"):
            return _path(given), self
        url, found = split_options(given, parsers_of(Options))
        if not url.startswith("sqlite:///") or len(url) <= len("sqlite:///"):
            raise ConfigError("path", "must read sqlite:///relative.db or sqlite:////absolute.db")
        return _path(unquote(url.removeprefix("sqlite:///"))), with_options(self, found)


def _path(given: str) -> str:
    try:
        os.fsencode(given)
    except UnicodeEncodeError:
        raise ConfigError(
            "path", "must be the name of a file; it contains a character that no name can contain"
        ) from None
    if not given or "\0" in given:
        raise ConfigError("path", "must be the name of a file")
    if ":memory:" in given:
        raise ConfigError("path", "must be a file; for jobs in memory use the memory backend")
    # Absolute, so that a later chdir does not lead to another file. Symbolic links are not resolved.
    return str(Path(given).absolute())
