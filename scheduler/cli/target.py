"""Import of the application's worker: `module:attribute`, or `module:create()` for a factory."""

from __future__ import annotations

import importlib
import sys
import traceback
from operator import attrgetter
from pathlib import Path

from scheduler.errors import ConfigError, HandlerError, SchemaMismatch
from scheduler.worker import Worker

# Imported before the working folder is on the path, so that a module with this name there cannot replace it.
_OURS = "scheduler_backends"
_HERE = str(Path(__file__).parents[1])
_USAGE_ERRORS = (ImportError, SyntaxError, ConfigError, HandlerError, SchemaMismatch)


def load_worker(target: str) -> Worker:
    """
    Import the module, also from the current directory, and return its worker.

    Raises `ConfigError` if *target* is misspelt or not a worker, and for errors of the application that can be reported
    in one line, such as a failed import. Other errors of its code are raised unchanged.
    """
    module_name, colon, attribute = target.partition(":")
    if not (module_name and colon and attribute):
        raise ConfigError("target", f"must be module:attribute or module:create(), not {target!r}")
    importlib.import_module(_OURS)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except _USAGE_ERRORS as error:
        # Only if the target's own module is missing. Another missing module is an error of the application.
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{module_name}.".startswith(f"{missing}."):
            raise ConfigError("target", f"there is no module {missing!r} in this folder or on the path") from error
        raise _usage_error(module_name, error) from error
    try:
        found: object = attrgetter(attribute.removesuffix("()"))(module)
    except AttributeError:
        raise ConfigError("target", f"{module_name} has no attribute {attribute!r}") from None
    if attribute.endswith("()"):
        if not callable(found):
            raise ConfigError("target", f"{attribute!r} of {module_name} is not callable")
        try:
            found = found()
        except _USAGE_ERRORS as error:
            raise _usage_error(attribute, error) from error
    if not isinstance(found, Worker):
        advice = f"; a factory is named {target}()" if callable(found) else ""
        raise ConfigError("target", f"{target} is {type(found).__name__}, not a Worker{advice}")
    return found


def _usage_error(what: str, error: Exception) -> ConfigError:
    kind = type(error).__name__
    if isinstance(error, SyntaxError):
        place = f"{error.filename}, line {error.lineno}"
        return ConfigError("target", f"{what} cannot be loaded: {kind}: {error.msg} ({place})")
    # The innermost line in code of the application, not of the import system or this library.
    frames = [
        f"{frame.filename}, line {frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(("<", _HERE)) and frame.filename != importlib.__file__
    ]
    place = f" ({frames[-1]})" if frames else ""
    return ConfigError("target", f"{what} cannot be loaded: {kind}: {error}{place}")
