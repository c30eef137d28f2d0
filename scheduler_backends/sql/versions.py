"""The version of the schema: whether it is the one that this release needs."""

from __future__ import annotations

import re
from scheduler.errors import ConfigError

_IDENTIFIER = re.compile("[a-z_][a-z0-9_]{0,39}")


def check_identifier(field: str, name: object) -> str:
    """Check the name of a schema or a prefix of tables: lower-case letters, digits and underscores, at most 40."""
    if not isinstance(name, str) or not _IDENTIFIER.fullmatch(name):
        raise ConfigError(field, "must be 1 to 40 lower-case letters, digits and underscores, no digit first")
    return name
