"""
Removes tests of abilities that a backend does not offer.

These tests could only be skipped, and hundreds of skips would hide the few that report something missing on the
machine. So they are not collected. The summary of a test run has one line per backend that lists them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final, TypeVar

from scheduler.backend import Backend

T = TypeVar("T", bound=Callable[..., object])

SHARED_STORE: Final = "several backends on one store"

_NEEDED: Final = "__needs__"  # an attribute of test functions
_BY_FIXTURE: Final = {"second": SHARED_STORE}  # what tests with this fixture need

_left_out: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
_joined: set[tuple[str, str]] = set()  # a backend, and what one of its test classes tests


def needs(what: type | str) -> Callable[[T], T]:
    """Mark a test, or all tests of a class, as needing *what*: the protocol of an ability, or `SHARED_STORE`."""

    def mark(target: T) -> T:
        tests = [one for name, one in vars(target).items() if name.startswith("test_")]
        for test in tests if isinstance(target, type) else [target]:
            setattr(test, _NEEDED, (*getattr(test, _NEEDED, ()), what))
        return target

    return mark


def leave_out_what_is_not_offered(cls: type, backend: type[Backend]) -> None:
    """Remove the tests of what *backend* does not offer from the test class *cls*."""
    for name in dir(cls):
        if name.startswith("test_") and (missing := _missing(getattr(cls, name), backend)):
            leave_out(cls, backend, name, missing)


def leave_out(cls: type, backend: type[Backend] | None, name: str, what: str) -> None:
    """Remove the test *name*, which needs *what*, from the test class *cls*. pytest does not collect None."""
    setattr(cls, name, None)
    if cls.__module__.startswith(__package__ or ""):
        return  # the suite's own class, which tests no backend
    _left_out[_name_of(cls, backend)][what].add(name)


def join(cls: type, backend: type[Backend] | None, what: str) -> None:
    """Record that *cls* has tests of *what*, so that they are not reported as missing for its backend."""
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
    """Return one line per tested backend that does not offer everything."""
    lines = []
    for backend, missing in sorted(_left_out.items()):
        reported = [
            f"{what} ({len(tests)} tests)" for what, tests in sorted(missing.items()) if (backend, what) not in _joined
        ]
        if reported:
            lines.append(f"{backend}: {', '.join(reported)}")
    return lines
