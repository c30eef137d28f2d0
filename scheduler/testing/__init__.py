"""
Tools for testing backends, and programs that use this library.

Importing this package is cheap: each name is imported when it is first used. Only `scheduler.testing.contract` and
`scheduler.testing.state_machine` need pytest and hypothesis (the extra `testing`); import them by their full names.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from scheduler.testing.clock import ManualClock
    from scheduler.testing.draining import Drained, drain
    from scheduler.testing.expecting import assert_enqueued
    from scheduler.testing.faults import Faults, Gate
    from scheduler.testing.faulty_backend import FaultyBackend, faulty

__all__ = ["Drained", "Faults", "FaultyBackend", "Gate", "ManualClock", "assert_enqueued", "drain", "faulty"]

# A module must not have the name of an object it exports: importing the module would replace that object here.
_MODULES: Final = {
    "clock": ("ManualClock",),
    "draining": ("Drained", "drain"),
    "expecting": ("assert_enqueued",),
    "faults": ("Faults", "Gate"),
    "faulty_backend": ("FaultyBackend", "faulty"),
}
_MODULE_OF: Final = {name: module for module, names in _MODULES.items() for name in names}


if not TYPE_CHECKING:  # hidden from type checkers, which would otherwise accept misspelt names

    def __getattr__(name: str) -> object:
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
