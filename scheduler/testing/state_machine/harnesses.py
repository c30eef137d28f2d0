"""Opens the backends for the random sequences."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from scheduler.queues import Retention
from scheduler.testing.harness import BackendHarness, OpenBackend


class Harnesses:
    """
    Provides harnesses for random sequences, and shares one per retention, since connecting is slow.

    Each sequence uses new queues. A backend that is `in_process` is not shared but opened for each sequence, so that
    no state, such as the rotation of queues, prevents hypothesis from reproducing a failure.
    """

    def __init__(self, open_backend: OpenBackend) -> None:
        self._open_backend = open_backend
        self._shared: dict[Retention, BackendHarness] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._shared:
            self._shared.popitem()[1].close()

    @property
    def have_clocks(self) -> bool:
        """Return True if the backend's clock can be set."""
        harness = self.take(Retention())
        try:
            return harness.clock is not None
        finally:
            self.give_back(harness)

    def take(self, retention: Retention) -> BackendHarness:
        """Return a harness for one sequence."""
        harness = self._shared.get(retention)
        if harness is None:
            harness = BackendHarness(self._open_backend, retention=retention)
            if not harness.backend.in_process:
                self._shared[retention] = harness
        return harness

    def give_back(self, harness: BackendHarness) -> None:
        """Return a harness after its sequence has ended. Its queues are not used again."""
        harness.queues.clear()
        harness.leases.clear()
        if harness.backend.in_process:
            harness.close()
