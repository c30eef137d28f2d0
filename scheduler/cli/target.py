"""Finds the application's worker: `module:attribute`, or `module:create()` for a factory."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from scheduler.errors import ConfigError
from scheduler.worker import Worker


def load_worker(target: str) -> Worker:
    """
    Import the module, from the current directory too, and answer its worker.

    Raises `ConfigError` for a target that is misspelt or is no worker. What the application's own code raises while
    it is imported passes through, so that its traceback is seen.
    """
    module_name, colon, attribute = target.partition(":")
    if not (module_name and colon and attribute):
        raise ConfigError("target", f"must be module:attribute or module:create(), not {target!r}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        # Only the module that was asked for: one that the application itself lacks is the application's bug.
        if error.name is None or not (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise
        raise ConfigError("target", f"there is no module {error.name!r} here or on the path") from error
    found: object = module
    for name in attribute.removesuffix("()").split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise ConfigError("target", f"{module_name} has no attribute {attribute!r}") from None
    if attribute.endswith("()"):
        if not callable(found):
            raise ConfigError("target", f"{attribute!r} of {module_name} is not callable")
        found = found()
    if not isinstance(found, Worker):
        advice = f"; a factory is named {target}()" if callable(found) else ""
        raise ConfigError("target", f"{target} is {type(found).__name__}, not a Worker{advice}")
    return found
