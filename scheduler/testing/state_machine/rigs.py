"""Where the sequences' backends come from."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from scheduler.queues import Retention
from scheduler.testing.rig import OpenBackend, Rig


class Rigs:
    """
    One rig a retention for all sequences, since connecting is dear and each sequence takes fresh queues.

    A backend that is `in_process` is opened anew for each: then nothing that it remembers, such as whose turn it is,
    keeps hypothesis from playing a failed sequence again.
    """

    def __init__(self, open_backend: OpenBackend) -> None:
        self._open_backend = open_backend
        self._shared: dict[Retention, Rig] = {}

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
        rig = self.take(Retention())
        try:
            return rig.clock is not None
        finally:
            self.give_back(rig)

    def take(self, retention: Retention) -> Rig:
        """A rig for one sequence."""
        rig = self._shared.get(retention)
        if rig is None:
            rig = Rig(self._open_backend, retention=retention)
            if not rig.backend.in_process:
                self._shared[retention] = rig
        return rig

    def give_back(self, rig: Rig) -> None:
        """The sequence has ended, and its queues are of no use any more."""
        rig.queues.clear()
        rig.leases.clear()
        if rig.backend.in_process:
            rig.close()
