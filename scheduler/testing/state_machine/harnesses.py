"""Where the sequences' backends come from."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from scheduler.queues import Retention
from scheduler.testing.harness import BackendHarness, OpenBackend


class Harnesses:
    """
    One harness a retention for all sequences, since connecting takes long and each sequence takes fresh queues.

    A backend that is `in_process` is opened anew for each: then nothing that it remembers, such as whose turn it is,
    keeps hypothesis from playing a failed sequence again.
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
        """Whether the backend's time can be set."""
        harness = self.take(Retention())
        try:
            return harness.clock is not None
        finally:
            self.give_back(harness)

    def take(self, retention: Retention) -> BackendHarness:
        """A harness for one sequence."""
        harness = self._shared.get(retention)
        if harness is None:
            harness = BackendHarness(self._open_backend, retention=retention)
            if not harness.backend.in_process:
                self._shared[retention] = harness
        return harness

    def give_back(self, harness: BackendHarness) -> None:
        """The sequence has ended, and its queues are of no use any more."""
        harness.queues.clear()
        harness.leases.clear()
        if harness.backend.in_process:
            harness.close()
