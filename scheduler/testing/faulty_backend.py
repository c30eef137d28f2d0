"""A backend that fails on request: before the effect, after it, or only once it is released."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import cast

from scheduler.abilities import TopologyAdmin, TransactionalEnqueue, Waiter, WakeReason, Wakeups
from scheduler.backend import METHODS, Backend
from scheduler.queues import Retention
from scheduler.testing.faults import Faults

_ABILITIES: tuple[type, ...] = (Wakeups, TopologyAdmin, TransactionalEnqueue)


class FaultyBackend(Backend):
    """What `faulty` returns: the wrapped backend, with `faults` to inject and to count by."""

    wrapped: Backend
    faults: Faults


class FaultyWaiter:
    """A waiter whose `wait` fails and is counted as well, under the name "wait"."""

    def __init__(self, waiter: Waiter, faults: Faults) -> None:
        self._waiter = waiter
        self._faults = faults

    def wait(self, timeout: float) -> WakeReason:
        """As the wrapped one's, unless a fault is due."""
        return self._faults.run("wait", self._waiter.wait, timeout)

    def interrupt(self) -> None:
        """Never fails: a test that stops must be able to."""
        self._waiter.interrupt()

    def close(self) -> None:
        """Never fails."""
        self._waiter.close()


def faulty(backend: Backend) -> FaultyBackend:
    """
    *backend* behind a class built for it: it has exactly the abilities, and the `clock`, of what it wraps.

    `isinstance(faulty(backend), Wakeups)` is therefore as true as of *backend*. Without faults it only counts calls.
    """
    offered = [name for ability in _ABILITIES if isinstance(backend, ability) for name in _methods(ability)]
    namespace: dict[str, object] = {name: _delegate(name) for name in (*METHODS, *offered)}
    namespace["in_process"] = backend.in_process
    namespace["retention"] = property(_retention)
    namespace["from_url"] = classmethod(_refuse_url)
    if isinstance(backend, Wakeups):
        namespace["waiter"] = _waiter
    if hasattr(backend, "clock"):
        namespace["clock"] = property(_clock, _set_clock)
    built = type(f"Faulty{type(backend).__name__}", (FaultyBackend,), namespace)
    # It overrides the public methods, so the hooks behind them, which are abstract, are never called.
    built.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]  # a class that ABCMeta made has it
    made = cast("FaultyBackend", built())
    made.wrapped = backend
    made.faults = Faults((*METHODS, *offered, "wait"))
    return made


def _methods(ability: type) -> tuple[str, ...]:
    return tuple(name for name in vars(ability) if not name.startswith("_"))


def _delegate(name: str) -> Callable[..., object]:
    @functools.wraps(getattr(Backend, name, None) or _ability_method(name))
    def call(self: FaultyBackend, *args: object, **kwargs: object) -> object:
        return self.faults.run(name, getattr(self.wrapped, name), *args, **kwargs)

    return call


def _ability_method(name: str) -> Callable[..., object]:
    return next(cast("Callable[..., object]", vars(ability)[name]) for ability in _ABILITIES if name in vars(ability))


def _waiter(self: FaultyBackend, queues: list[str]) -> FaultyWaiter:
    waiter = self.faults.run("waiter", cast("Wakeups", self.wrapped).waiter, queues)
    return FaultyWaiter(waiter, self.faults)


def _retention(self: FaultyBackend) -> Retention:
    return self.wrapped.retention


def _clock(self: FaultyBackend) -> object:
    return self.wrapped.clock  # type: ignore[attr-defined]  # the property exists only where the wrapped has one


def _set_clock(self: FaultyBackend, clock: object) -> None:
    self.wrapped.clock = clock  # type: ignore[attr-defined]  # as above


def _refuse_url(cls: type, url: str) -> FaultyBackend:
    raise NotImplementedError(f"{cls.__name__} is made by faulty(backend), not from {url}")
