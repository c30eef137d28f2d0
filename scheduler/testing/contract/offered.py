"""
Which tests a backend's class is given: those of an ability only where the class has it.

A test of what a backend does not offer could only be skipped, and hundreds of skips hide the few that say what this
machine lacks. Such tests are not collected; the end of a run has one line for each backend that says what they were.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final, TypeVar

from scheduler.backend import Backend

T = TypeVar("T", bound=Callable[..., object])

SHARED_STORE: Final = "several backends on one store"

_NEEDED: Final = "__needs__"  # the attribute of a test
_BY_FIXTURE: Final = {"second": SHARED_STORE}  # what a test needs that asks for this fixture

_left_out: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
_joined: set[tuple[str, str]] = set()  # a backend, and what one class of its tests


def needs(what: type | str) -> Callable[[T], T]:
    """Mark a test, or all tests of a class, as being about *what*: the protocol of an ability, or `SHARED_STORE`."""

    def mark(target: T) -> T:
        tests = [one for name, one in vars(target).items() if name.startswith("test_")]
        for test in tests if isinstance(target, type) else [target]:
            setattr(test, _NEEDED, (*getattr(test, _NEEDED, ()), what))
        return target

    return mark


def leave_out_what_is_not_offered(cls: type, backend: type[Backend]) -> None:
    """Take from the test class *cls* the tests of what *backend* does not offer."""
    for name in dir(cls):
        if name.startswith("test_") and (missing := _missing(getattr(cls, name), backend)):
            leave_out(cls, backend, name, missing)


def leave_out(cls: type, backend: type[Backend] | None, name: str, what: str) -> None:
    """Take the test *name*, which is about *what*, from the test class *cls*: pytest collects no test that is None."""
    setattr(cls, name, None)
    if cls.__module__.startswith(__package__ or ""):
        return  # the suite's own class, which tests no backend
    _left_out[_name_of(cls, backend)][what].add(name)


def join(cls: type, backend: type[Backend] | None, what: str) -> None:
    """The test class *cls* has tests of *what*; where other classes of its backend leave them out, none is reported."""
    _joined.add((_name_of(cls, backend), what))


def _name_of(cls: type, backend: type[Backend] | None) -> str:
    return cls.__name__ if backend is None else backend.__name__


def _missing(test: Any, backend: type[Backend]) -> str | None:
    code = getattr(test, "__code__", None)
    fixtures = code.co_varnames[: code.co_argcount] if code else ()
    needed = [*getattr(test, _NEEDED, ()), *(_BY_FIXTURE[name] for name in fixtures if name in _BY_FIXTURE)]
    for what in needed:
        if isinstance(what, type):
            if not issubclass(backend, what):
                return what.__name__
        elif backend.in_process:
            return str(what)
    return None


def report() -> list[str]:
    """A line for each backend of this process that does not offer everything."""
    lines = []
    for backend, missing in sorted(_left_out.items()):
        reported = [
            f"{what} ({len(tests)} tests)" for what, tests in sorted(missing.items()) if (backend, what) not in _joined
        ]
        if reported:
            lines.append(f"{backend}: {', '.join(reported)}")
    return lines
