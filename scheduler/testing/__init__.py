"""
For tests of backends and of programs that use this library.

Light to import: each name is imported when first used. pytest and hypothesis (extra `testing`) are needed by
`scheduler.testing.contract` and `scheduler.testing.state_machine` alone, which are imported by name.
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

# No module has the name of what it holds: importing the module would replace the name.
_MODULES: Final = {
    "clock": ("ManualClock",),
    "draining": ("Drained", "drain"),
    "expecting": ("assert_enqueued",),
    "faults": ("Faults", "Gate"),
    "faulty_backend": ("FaultyBackend", "faulty"),
}
_MODULE_OF: Final = {name: module for module, names in _MODULES.items() for name in names}


if not TYPE_CHECKING:  # a checker that saw it would let misspelt names pass

    def __getattr__(name: str) -> object:
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
