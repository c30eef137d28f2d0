"""Parsing of backend URLs, and URLs without passwords for logs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from urllib.parse import SplitResult, parse_qsl, urlsplit

from scheduler.errors import ConfigError
from scheduler.queues import Retention

Option = str | int | float | bool
Parser = Callable[[str], Option]

RETENTION_OPTIONS: Mapping[str, Parser] = {"retain_succeeded": float, "retain_cancelled": float, "retain_dead": float}
"""Query parameters of every backend, in seconds. `retention_from` turns them into a `Retention`."""


def boolean(text: str) -> bool:
    """Parse "1", "true", "yes", "0", "false" or "no", in upper or lower case. Raises ValueError for other text."""
    try:
        return {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}[text.lower()]
    except KeyError:
        raise ValueError("must be true or false") from None


def split(url: str) -> SplitResult:
    """
    Return the parts of *url*, whose host may be a comma-separated list.

    Raises `ConfigError` if it cannot be parsed, or if a part of its password could appear in a log.
    """
    if not isinstance(url, str):
        raise ConfigError("url", f"must be text, not {type(url).__name__}")
    # Parts of a password that is not percent-encoded would end up in the host, path or query, which logs show.
    try:
        authority = re.match(r"[^:/?#]*://([^/?#]*)", url)
        if authority is not None and "," in authority[1]:
            # Newer Python versions refuse a list with an IPv6 address, since they take it for one host.
            parts = urlsplit(url.replace(authority[1], "several", 1))._replace(netloc=authority[1])
        else:
            parts = urlsplit(url)
    except ValueError:  # not chained, since its message shows the whole password
        raise ConfigError("url", "cannot be parsed; percent-encode special characters in names and passwords") from None
    if "#" in url or (parts.netloc and "@" in parts.path + parts.query):
        raise ConfigError("url", "must not contain '#', or '@' after the host; percent-encode names and passwords")
    return parts


def split_options(url: str, parsers: Mapping[str, Parser]) -> tuple[str, dict[str, Option]]:
    """
    Return *url* without its query, and the parsed parameters of the query.

    Raises `ConfigError`, which names the parameter, if one is unknown, given twice, or refused by its parser (with
    ValueError).
    """
    parts = split(url)
    options: dict[str, Option] = {}
    for name, text in parse_qsl(parts.query, keep_blank_values=True):
        if name not in parsers:
            raise ConfigError(name, f"is not an option of {parts.scheme}:// URLs; known: {', '.join(sorted(parsers))}")
        if name in options:
            raise ConfigError(name, "is given twice in the URL")
        try:
            options[name] = parsers[name](text)
        except ValueError as error:
            raise ConfigError(name, f"cannot be read from {text!r} in the URL: {error}") from None
    return url.partition("?")[0], options


def retention_from(options: dict[str, Option]) -> Retention:
    """Remove the `RETENTION_OPTIONS` from *options* and return them as a `Retention`."""
    given = {name.removeprefix("retain_"): float(options.pop(name)) for name in RETENTION_OPTIONS if name in options}
    return Retention(**given)


def without_password(url: str) -> str:
    """Return *url* for logs and reprs, without password and query; three asterisks if it cannot be parsed."""
    try:
        parts = split(url)
    except ConfigError:
        return "***"
    user, at, host = parts.netloc.rpartition("@")
    if at:
        name, colon, _ = user.partition(":")
        host = f"{name}:***@{host}" if colon else f"{name}@{host}"
    return f"{parts.scheme}://{host}{parts.path}"
