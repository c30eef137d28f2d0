"""What a backend is built with: the path, the arguments, and the options of a URL."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from scheduler.errors import ConfigError
from scheduler.limits import check_kind, check_number
from scheduler.queues import Retention
from scheduler.urls import RETENTION_OPTIONS, Parser, boolean, retention_from, split_options
from scheduler_backends.sql.versions import check_identifier

_OPTIONS: Mapping[str, Parser] = {
    **RETENTION_OPTIONS,
    "synchronous": str,
    "timeout": float,
    "prefix": str,
    "migrate": boolean,
}
_DEFAULTS: Final[Mapping[str, object]] = {
    "synchronous": "full",
    "timeout": 5.0,
    "prefix": "scheduler_",
    "migrate": True,
}


def read(path_or_url: str | os.PathLike[str]) -> tuple[str, dict[str, Any]]:
    """The path that is meant, and the options of a URL."""
    options: dict[str, Any] = {}
    try:
        given = os.fsdecode(path_or_url)
    except TypeError:
        raise ConfigError("path", f"must be a path or a URL, not {type(path_or_url).__name__}") from None
    if given.startswith("sqlite:"):
        given, options = split_options(given, _OPTIONS)
        if not given.startswith("sqlite:///") or len(given) <= len("sqlite:///"):
            raise ConfigError("path", "must read sqlite:///relative.db or sqlite:////absolute.db")
        given = unquote(given.removeprefix("sqlite:///"))
    try:
        os.fsencode(given)
    except UnicodeEncodeError:
        raise ConfigError("path", "must be the name of a file; it holds a character that no name can hold") from None
    if not given or "\0" in given:
        raise ConfigError("path", "must be the name of a file")
    if ":memory:" in given:
        raise ConfigError("path", "must be a file; for jobs in memory use the memory backend")
    # A later chdir of the program must not lead elsewhere; a symbolic link stays one.
    return str(Path(given).absolute()), options


def merged(given: dict[str, Any], in_url: dict[str, Any]) -> dict[str, Any]:
    """The arguments of the class, checked, with those of the URL."""
    retention = retention_from(in_url) if in_url.keys() & RETENTION_OPTIONS.keys() else None
    if retention is not None:
        in_url["retention"] = retention
    for name, value in in_url.items():
        if given[name] not in (_DEFAULTS.get(name), value):
            raise ConfigError(name, "is given in the URL and as an argument, and they differ")
    options = {**given, **in_url}
    if options["synchronous"] not in ("full", "normal"):
        raise ConfigError("synchronous", "must be 'full' or 'normal'")
    check_kind("migrate", options["migrate"], bool)
    if options["retention"] is not None:
        check_kind("retention", options["retention"], Retention)
    options["timeout"] = check_number("timeout", options["timeout"], at_least=0.001, at_most=3_600.0)
    check_identifier("prefix", options["prefix"])
    return options
