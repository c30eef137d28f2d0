"""Lookup of the backend for a URL among the installed entry points, so that the core imports no backend."""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint, entry_points

from scheduler.backend import Backend
from scheduler.errors import ConfigError

__all__ = ["backend_from_url"]

GROUP = "scheduler.backends"
"""Group of entry points. The name of an entry is the URL scheme, its value the backend class."""

_SCHEME = re.compile("[a-z][a-z0-9+.-]{0,99}")


def backend_from_url(url: str) -> Backend:
    """
    Return the backend for *url*, such as "redis://localhost:6379/0". A bare scheme, "memory", means "memory://".

    Imports only that backend, and does not connect. Raises `ConfigError` if no installed package has a backend for the
    scheme, if the driver is not installed (the message names the extra to install), or if an option is invalid.
    """
    scheme, rest = _split(url)
    offers = {entry.value: entry for entry in entry_points(group=GROUP, name=scheme)}
    if not offers:
        known = ", ".join(sorted(entry_points(group=GROUP).names)) or "none"
        raise ConfigError("url", f"no installed package offers a backend for {scheme}://; known: {known}")
    if len(offers) > 1:  # otherwise sys.path would decide
        raise ConfigError("url", f"several installed backends claim {scheme}://: {', '.join(sorted(offers))}")
    (entry,) = offers.values()
    return _load(entry).from_url(f"{scheme}://{rest}")


def _split(url: object) -> tuple[str, str]:
    if not isinstance(url, str):
        raise ConfigError("url", f"must be text, not {type(url).__name__}")
    scheme, _, rest = url.partition("://")
    if not _SCHEME.fullmatch(scheme.lower()):  # not shown: it may hold a password
        raise ConfigError("url", "must begin with a scheme, such as memory:// or redis://")
    return scheme.lower(), rest


def _load(entry: EntryPoint) -> type[Backend]:
    try:
        loaded = entry.load()
    except (ImportError, AttributeError) as error:
        raise ConfigError("url", _advice(entry, error)) from error
    if not (isinstance(loaded, type) and issubclass(loaded, Backend)):
        raise ConfigError("url", f"{entry.value}, which claims {entry.name}://, is not a Backend")
    return loaded


def _advice(entry: EntryPoint, error: ImportError | AttributeError) -> str:
    # By convention, the extra that installs a backend's driver has the name of the backend's module.
    extra = entry.module.rpartition(".")[2]
    package = entry.module.partition(".")[0]
    driver_missing = isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] != package
    if driver_missing and entry.dist and extra in (entry.dist.metadata.get_all("Provides-Extra") or ()):
        name = entry.attr.removesuffix("Backend")
        return f"The {name} backend needs: pip install '{entry.dist.name}[{extra}]'"
    return f"the backend for {entry.name}:// cannot be loaded: {error}"
