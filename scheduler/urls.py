"""Backend URLs: options from query parameters, and what may be shown of a URL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from scheduler.errors import ConfigError
from scheduler.queues import Retention

Option = str | int | float | bool
Parser = Callable[[str], Option]

RETENTION_OPTIONS: Mapping[str, Parser] = {"retain_succeeded": float, "retain_cancelled": float, "retain_dead": float}
"""Query parameters in seconds that every backend takes; `retention_from` makes the `Retention` of them."""


def boolean(text: str) -> bool:
    """A parser of options that are on or off."""
    try:
        return {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}[text.lower()]
    except KeyError:
        raise ValueError("must be true or false") from None


def split_options(url: str, parsers: Mapping[str, Parser]) -> tuple[str, dict[str, Option]]:
    """
    *url* without its query, and the query's parameters, each read by its parser.

    `ConfigError` names a parameter that is unknown, given twice, or that its parser (by ValueError) does not take.
    """
    parts = urlsplit(url)
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
    return urlunsplit(parts._replace(query="")), options


def retention_from(options: dict[str, Option]) -> Retention:
    """The `Retention` that the options ask for; takes them out of *options*."""
    given = {name.removeprefix("retain_"): float(options.pop(name)) for name in RETENTION_OPTIONS if name in options}
    return Retention(**given)


def without_password(url: str) -> str:
    """*url* as logs and reprs may show it: no password, no query."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    if at:
        name, colon, _ = user.partition(":")
        host = f"{name}:***@{host}" if colon else f"{name}@{host}"
    return urlunsplit((parts.scheme, host, parts.path, "", ""))
