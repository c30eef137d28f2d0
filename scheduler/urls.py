"""Backend URLs: options from query parameters, and what may be shown of a URL."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from urllib.parse import SplitResult, parse_qsl, urlsplit

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


def split(url: str) -> SplitResult:
    """
    The parts of *url*, whose host may be a list with commas.

    `ConfigError` for one that cannot be read, or that would show a part of its password.
    """
    # A password that is not percent-encoded would leave pieces of itself in the host, path or query, where they show.
    try:
        place = re.match(r"[^:/?#]*://([^/?#]*)", url)
        if place is not None and "," in place[1]:
            # Newer Pythons refuse a list that holds an IPv6 address: they take it for one host.
            parts = urlsplit(url.replace(place[1], "several", 1))._replace(netloc=place[1])
        else:
            parts = urlsplit(url)
    except ValueError:  # its text shows the whole password
        raise ConfigError("url", "cannot be read; percent-encode what is special in names and passwords") from None
    if "#" in url or (parts.netloc and "@" in parts.path + parts.query):
        raise ConfigError("url", "must hold no '#', and no '@' after the host; percent-encode names and passwords")
    return parts


def split_options(url: str, parsers: Mapping[str, Parser]) -> tuple[str, dict[str, Option]]:
    """
    *url* without its query, and the query's parameters, each read by its parser.

    `ConfigError` names a parameter that is unknown, given twice, or that its parser (by ValueError) does not take.
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
    """The `Retention` that the options ask for; takes them out of *options*."""
    given = {name.removeprefix("retain_"): float(options.pop(name)) for name in RETENTION_OPTIONS if name in options}
    return Retention(**given)


def without_password(url: str) -> str:
    """*url* as logs and reprs may show it: no password, no query."""
    try:
        parts = split(url)
    except ConfigError:
        return "***"
    user, at, host = parts.netloc.rpartition("@")
    if at:
        name, colon, _ = user.partition(":")
        host = f"{name}:***@{host}" if colon else f"{name}@{host}"
    return f"{parts.scheme}://{host}{parts.path}"
