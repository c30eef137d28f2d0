"""
Reliable, distributed, delayed job execution.

The public names are those in `__all__` of the modules listed below. Each is imported on first use, so that
`import scheduler` is cheap, and a program that only enqueues never loads the worker.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # star imports follow `__all__` of each module, as `__getattr__` below does
    from scheduler.backend import *
    from scheduler.config import *
    from scheduler.errors import *
    from scheduler.jobs import *
    from scheduler.leases import *
    from scheduler.metrics import *
    from scheduler.plugins import *
    from scheduler.producer import *
    from scheduler.queues import *
    from scheduler.retry import *
    from scheduler.serializers import *
    from scheduler.states import *
    from scheduler.worker import *

    __version__: str

# Names are searched in this order, so that looking up a name of a low layer imports no higher layer.
_MODULES: Final = (
    "errors",
    "states",
    "retry",
    "jobs",
    "queues",
    "leases",
    "metrics",
    "serializers",
    "config",
    "backend",
    "producer",
    "plugins",
    "worker",
)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - slower than the rest of this module

    try:
        return version("reliable-scheduler")
    except PackageNotFoundError:  # a checkout on sys.path that is not installed
        return "0+unknown"


def _all() -> list[str]:
    return sorted({"__version__", *(name for module in _MODULES for name in _names_of(module))})


def _names_of(module: str) -> list[str]:
    names: list[str] = import_module(f"{__name__}.{module}").__all__
    return names


if not TYPE_CHECKING:  # a type checker that sees `__getattr__` accepts misspelt names

    def __getattr__(name: str) -> object:
        from importlib.util import find_spec  # noqa: PLC0415 - not needed by a bare `import scheduler`

        if name == "__version__":
            return _version()
        if name == "__all__":
            return _all()
        # `from scheduler import cli` looks up an attribute first, which must not import all other modules.
        if not name.startswith("_") and find_spec(f"{__name__}.{name}") is None:
            for module in _MODULES:
                if name in _names_of(module):
                    value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
                    return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_all()})
