"""A wrapper that makes the calls of a backend fail or block on request."""

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
    """
    A backend that passes every call to another one, except for injected faults. Made by `faulty`.

    Attributes:
        wrapped: The backend that was given to `faulty`.
        faults: Plans faults, and counts the calls.
    """

    wrapped: Backend
    faults: Faults


class FaultyWaiter:
    """A waiter whose calls of `wait` are counted and can fail, under the method name "wait"."""

    def __init__(self, waiter: Waiter, faults: Faults) -> None:
        self._waiter = waiter
        self._faults = faults

    def wait(self, timeout: float) -> WakeReason:
        """Wait as the wrapped waiter does, unless a fault applies."""
        return self._faults.run("wait", self._waiter.wait, timeout)

    def interrupt(self) -> None:
        """Interrupt the wrapped waiter. Faults do not apply, so that a test can always stop it."""
        self._waiter.interrupt()

    def close(self) -> None:
        """Close the wrapped waiter. Faults do not apply."""
        self._waiter.close()


def faulty(backend: Backend) -> FaultyBackend:
    """
    Wrap *backend* so that faults can be injected into its calls.

    The wrapper has the same abilities as *backend*, so `isinstance(faulty(backend), Wakeups)` gives the same result as
    `isinstance(backend, Wakeups)`, and it has a `clock` if *backend* has one. It passes calls on and counts them until
    a fault is planned with its `faults`. Closing it closes *backend*.
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
    # All public methods are overridden, so the abstract hooks behind them are never called.
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
    return self.wrapped.clock  # type: ignore[attr-defined]  # the property exists only if the wrapped backend has a clock


def _set_clock(self: FaultyBackend, clock: object) -> None:
    self.wrapped.clock = clock  # type: ignore[attr-defined]  # as above


def _refuse_url(cls: type, url: str) -> FaultyBackend:
    raise NotImplementedError(f"{cls.__name__} is made by faulty(backend), not from {url}")
