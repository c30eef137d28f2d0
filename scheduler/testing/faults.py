"""Planned faults and recorded calls of a backend wrapped by `faulty`."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, ParamSpec, TypeVar

from scheduler.errors import BackendUnavailable, ConfigError

WAIT_TIMEOUT = 30.0
"""Seconds after which a blocked call continues by itself, and after which `wait_for` gives up by default."""

_RECORDED = 10_000  # calls kept with their arguments; counts are not limited

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One recorded call, whether it succeeded or failed."""

    method: str
    args: tuple[object, ...]
    kwargs: dict[str, object]


class Gate:
    """Blocks calls until `release()`. The event `entered` is set when the first call has arrived."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self._released = threading.Event()

    def release(self) -> None:
        """Let the blocked calls continue, and later ones pass. May be called from any thread."""
        self._released.set()

    def hold(self) -> None:
        """Set `entered` and block until released, for at most `WAIT_TIMEOUT` seconds."""
        self.entered.set()
        self._released.wait(WAIT_TIMEOUT)


@dataclass(slots=True, kw_only=True)
class _Fault:
    methods: frozenset[str]
    how: Literal["before", "after", "block"]
    skip: int  # calls that pass before the first fault
    times: int | None  # faults left, None = until cleared
    error: Callable[[], BaseException]
    gate: Gate = field(default_factory=Gate)

    def strikes(self, method: str) -> bool:
        if method not in self.methods:
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.times is None:
            return True
        self.times -= 1
        return self.times >= 0


class Faults:
    """
    Injects faults into calls of a backend, and counts the calls. Thread-safe.

    All methods take names of backend methods, of ability methods, and "wait" for the `wait` of a waiter. Without names
    they apply to all of these. A name that the backend does not have raises ConfigError. If several faults apply to
    one call, the one that was planned first is used.
    """

    def __init__(self, methods: Sequence[str]) -> None:
        self._methods = frozenset(methods)
        # Guards everything below, and is notified of every call; never held while a call runs.
        self._changed = threading.Condition()
        self._planned: list[_Fault] = []
        self._counts: Counter[str] = Counter()
        self._calls: deque[Call] = deque(maxlen=_RECORDED)

    def before(
        self,
        *methods: str,
        nth: int = 1,
        times: int | None = 1,
        error: Callable[[], BaseException] = lambda: BackendUnavailable("injected: nothing is done"),
    ) -> None:
        """
        Raise an error instead of making the call.

        Args:
            *methods: The methods that fail; none = all.
            nth: The first call to fail, counted from now on; 1 = the next one.
            times: How many calls in a row fail. None = every call until `clear()`.
            error: Returns the exception to raise.
        """
        self._plan("before", methods, nth, times, error)

    def after(
        self,
        *methods: str,
        nth: int = 1,
        times: int | None = 1,
        error: Callable[[], BaseException] = lambda: BackendUnavailable("injected after the effect: the reply is lost"),
    ) -> None:
        """Make the call, discard its result and raise an error: a lost reply. The arguments are those of `before`."""
        self._plan("after", methods, nth, times, error)

    def block(self, *methods: str, nth: int = 1, times: int | None = 1) -> Gate:
        """
        Block calls at the returned gate until it is released, or for `WAIT_TIMEOUT` seconds, and then make them.

        The arguments are those of `before`.
        """
        return self._plan("block", methods, nth, times, RuntimeError).gate

    def clear(self) -> None:
        """Remove all planned faults and release every blocked call. Counts and recorded calls are kept."""
        with self._changed:
            planned, self._planned = self._planned, []
        for fault in planned:
            fault.gate.release()

    def count(self, *methods: str) -> int:
        """Return the number of calls of *methods* so far, including those that failed."""
        with self._changed:
            return sum(self._counts[method] for method in self._checked(methods))

    @property
    def calls(self) -> Sequence[Call]:
        """Return the latest calls, at most 10,000, the oldest first."""
        with self._changed:
            return tuple(self._calls)

    def wait_for(self, *methods: str, calls: int = 1, timeout: float = WAIT_TIMEOUT) -> bool:
        """Wait until *methods* were called *calls* times in total. Return False after *timeout* seconds."""
        names = self._checked(methods)
        with self._changed:
            return self._changed.wait_for(lambda: sum(self._counts[name] for name in names) >= calls, timeout)

    def run(self, method: str, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Record a call of *method*, and make it, block it or fail it as planned."""
        with self._changed:
            self._counts[method] += 1
            self._calls.append(Call(method=method, args=args, kwargs=dict(kwargs)))
            # Every fault counts this call. If several apply, the oldest one is used.
            fault = next(iter([fault for fault in self._planned if fault.strikes(method)]), None)
            self._changed.notify_all()
        if fault is None:
            return call(*args, **kwargs)
        if fault.how == "before":
            raise fault.error()
        if fault.how == "block":
            fault.gate.hold()
            return call(*args, **kwargs)
        call(*args, **kwargs)
        raise fault.error()

    def _plan(
        self,
        how: Literal["before", "after", "block"],
        methods: Sequence[str],
        nth: int,
        times: int | None,
        error: Callable[[], BaseException],
    ) -> _Fault:
        if nth < 1 or (times is not None and times < 1):
            raise ConfigError("nth" if nth < 1 else "times", "must be at least 1")
        fault = _Fault(methods=self._checked(methods), how=how, skip=nth - 1, times=times, error=error)
        with self._changed:
            self._planned.append(fault)
        return fault

    def _checked(self, methods: Sequence[str]) -> frozenset[str]:
        """Return the names, or all if none are given. A misspelt name is an error: its fault would never happen."""
        unknown = frozenset(methods) - self._methods
        if unknown:
            raise ConfigError("methods", f"this backend has no {', '.join(sorted(unknown))}")
        return frozenset(methods) or self._methods
