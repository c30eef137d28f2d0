"""Which call fails, and how: the plan of faults behind `faulty`, and the record of what was called."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, ParamSpec, TypeVar

from scheduler.errors import BackendUnavailable, ConfigError

WAIT_TIMEOUT = 30.0
"""Seconds after which a blocked call goes on by itself and a wait for calls gives up: nothing hangs for ever."""

_RECORDED = 10_000  # calls kept with their arguments; the counts go on

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call that arrived, whatever became of it."""

    method: str
    args: tuple[object, ...]
    kwargs: dict[str, object]


class Gate:
    """A call that is held up. `entered` is set when it has arrived; `release()` lets it go on."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self._released = threading.Event()

    def release(self) -> None:
        """Let the call, and later ones that meet this gate, go on. From any thread."""
        self._released.set()

    def hold(self) -> None:
        """Wait to be released, at most `WAIT_TIMEOUT` seconds."""
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
    Injects faults into calls and counts them. Safe in any thread.

    Every method that plans a fault takes names of contract methods, none = all of them, ability methods and "wait"
    (a waiter's) included; *nth* counts calls from now on (1 = the next). Where two faults meet, the older one strikes.
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
        """The nth call, and so many *times* (None = until `clear()`), raises *error()*; nothing is done."""
        self._plan("before", methods, nth, times, error)

    def after(
        self,
        *methods: str,
        nth: int = 1,
        times: int | None = 1,
        error: Callable[[], BaseException] = lambda: BackendUnavailable("injected after the effect: the reply is lost"),
    ) -> None:
        """As `before`, but the call takes effect first, and its reply is lost."""
        self._plan("after", methods, nth, times, error)

    def block(self, *methods: str, nth: int = 1, times: int | None = 1) -> Gate:
        """The nth call waits at the returned gate, then takes effect. Bounded by `WAIT_TIMEOUT`."""
        return self._plan("block", methods, nth, times, RuntimeError).gate

    def clear(self) -> None:
        """Forget the faults planned, and let every blocked call go on. Counts are kept."""
        with self._changed:
            planned, self._planned = self._planned, []
        for fault in planned:
            fault.gate.release()

    def count(self, *methods: str) -> int:
        """How many calls of these *methods* arrived so far, failed ones included."""
        with self._changed:
            return sum(self._counts[method] for method in self._checked(methods))

    @property
    def calls(self) -> Sequence[Call]:
        """The calls so far in the order in which they arrived: the newest 10,000."""
        with self._changed:
            return tuple(self._calls)

    def wait_for(self, *methods: str, calls: int = 1, timeout: float = WAIT_TIMEOUT) -> bool:
        """Wait until *calls* calls of these *methods* have arrived in all. False = not within *timeout* seconds."""
        names = self._checked(methods)
        with self._changed:
            return self._changed.wait_for(lambda: sum(self._counts[name] for name in names) >= calls, timeout)

    def run(self, method: str, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Count a call of *method*, and make it as the plan says."""
        with self._changed:
            self._counts[method] += 1
            self._calls.append(Call(method=method, args=args, kwargs=dict(kwargs)))
            # Every fault counts the call; of those that strike, the oldest does.
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
        """A name that no call ever has would make a test that cannot fail."""
        unknown = frozenset(methods) - self._methods
        if unknown:
            raise ConfigError("methods", f"this backend has no {', '.join(sorted(unknown))}")
        return frozenset(methods) or self._methods
