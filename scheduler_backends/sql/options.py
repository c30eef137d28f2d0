"""Options of a store, given as arguments or in its URL. The fields of a dataclass define them."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Final, TypeVar

from scheduler.errors import ConfigError
from scheduler.urls import RETENTION_OPTIONS, Option, Parser, boolean, retention_from

_PARSERS: Final[dict[str, Parser]] = {"bool": boolean, "int": int, "float": float}
_IDENTIFIER = re.compile("[a-z_][a-z0-9_]{0,39}")


def check_identifier(field: str, name: object) -> str:
    """Check the name of a schema or a table prefix: 1 to 40 lower-case letters, digits and underscores."""
    if not isinstance(name, str) or not _IDENTIFIER.fullmatch(name):
        raise ConfigError(field, "must be 1 to 40 lower-case letters, digits and underscores, no digit first")
    return name


_Options = TypeVar("_Options", bound=Any)


def parsers_of(options: type) -> dict[str, Parser]:
    """Return the parsers of a URL's query parameters, one for each field of *options*."""
    fields = (one for one in dataclasses.fields(options) if one.name != "retention")
    return {**RETENTION_OPTIONS, **{one.name: _PARSERS.get(str(one.type), str) for one in fields}}


def with_options(options: _Options, found: dict[str, Option]) -> _Options:
    """Return *options* with the values *found* in a URL. Raises `ConfigError` if an argument differs."""
    given: dict[str, Any] = found  # the constructor checks the types
    if RETENTION_OPTIONS.keys() & found.keys():
        given["retention"] = retention_from(found)
    defaults = type(options)()
    for name, value in given.items():
        if getattr(options, name) not in (getattr(defaults, name), value):
            raise ConfigError(name, "is given twice, in the URL and as an argument, and they differ")
    return dataclasses.replace(options, **given)
