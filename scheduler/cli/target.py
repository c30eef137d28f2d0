"""Finds the application's worker: `module:attribute`, or `module:create()` for a factory."""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path

from scheduler.errors import ConfigError, HandlerError, SchemaMismatch
from scheduler.worker import Worker

# Imported before the working folder is looked in, so that a module of that name there does not take its place.
_OURS = "scheduler_backends"
_HERE = str(Path(__file__).parents[1])
_MENDED_BY_HAND = (ImportError, SyntaxError, ConfigError, HandlerError, SchemaMismatch)


def load_worker(target: str) -> Worker:
    """
    Import the module, from the current directory too, and answer its worker.

    Raises `ConfigError` for a target that is misspelt or is no worker, and for what the application must mend. Other
    errors of its own code pass through.
    """
    module_name, colon, attribute = target.partition(":")
    if not (module_name and colon and attribute):
        raise ConfigError("target", f"must be module:attribute or module:create(), not {target!r}")
    importlib.import_module(_OURS)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: object = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        # Only the module that was asked for: one that the application itself lacks is the application's bug.
        if error.name is None or not (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise _to_be_mended(module_name, error) from error
        raise ConfigError("target", f"there is no module {error.name!r} here or on the path") from error
    except _MENDED_BY_HAND as error:
        raise _to_be_mended(module_name, error) from error
    for name in attribute.removesuffix("()").split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise ConfigError("target", f"{module_name} has no attribute {attribute!r}") from None
    if attribute.endswith("()"):
        if not callable(found):
            raise ConfigError("target", f"{attribute!r} of {module_name} is not callable")
        try:
            found = found()
        except _MENDED_BY_HAND as error:
            raise _to_be_mended(attribute, error) from error
    if not isinstance(found, Worker):
        advice = f"; a factory is named {target}()" if callable(found) else ""
        raise ConfigError("target", f"{target} is {type(found).__name__}, not a Worker{advice}")
    return found


def _to_be_mended(what: str, error: Exception) -> ConfigError:
    kind = type(error).__name__
    if isinstance(error, SyntaxError):
        place = f"{error.filename}, line {error.lineno}"
        return ConfigError("target", f"{what} cannot be loaded: {kind}: {error.msg} ({place})")
    # The innermost line of the application's own, not of the import system or of this library.
    frames = [
        f"{frame.filename}, line {frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(("<", _HERE)) and frame.filename != importlib.__file__
    ]
    place = f" ({frames[-1]})" if frames else ""
    return ConfigError("target", f"{what} cannot be loaded: {kind}: {error}{place}")
