"""The ability Wakeups: direct notification within the process, and the file's log for commits of other processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scheduler.abilities import Waiter
from scheduler.limits import check_queues
from scheduler.waiting import DescriptorWaiter
from scheduler_backends.sqlite.store import Store
from scheduler_backends.sqlite.watching import Watch

_REST: Final = 0.005  # seconds between two wakes


class WaiterHooks:
    """The method of the ability Wakeups."""

    _store: Store

    def waiter(self, queues: Sequence[str]) -> Waiter:
        """See `Wakeups.waiter`."""
        names, store = check_queues(queues), self._store
        return DescriptorWaiter(store.waiters, names, lambda wake: Watch(store, names, wake), rest=_REST)
