"""The fixtures of the suite: what a backend's test file overrides, and what the tests are given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import ClassVar

import pytest

from scheduler.backend import Backend
from scheduler.queues import Retention
from scheduler.testing.invariants import check_invariants
from scheduler.testing.rig import KEEP, LONG, OpenBackend, Rig

OpenRig = Callable[[Retention], Rig]


class Stand:
    """
    Fixtures of every test of the suite.

    same_store: whether two backends opened in one test stand on the same store. False for one that lives within its
    object: tests that need a second backend are then skipped. None = find out, by looking for a job in both.
    """

    same_store: ClassVar[bool | None] = True

    @pytest.fixture
    def open_backend(self) -> OpenBackend:
        """To be overridden: a callable that takes `clock` and `retention` and answers a new backend."""
        raise NotImplementedError(f"{type(self).__name__} must override the fixture open_backend")

    @pytest.fixture
    def open_rig(self, open_backend: OpenBackend) -> Iterator[OpenRig]:
        """Opens rigs with a retention; each is checked for the invariants, and closed, after the test."""
        with ExitStack() as stack:

            def open_rig(retention: Retention) -> Rig:
                rig = stack.enter_context(Rig(open_backend, retention=retention))
                stack.callback(check_invariants, rig)
                return rig

            yield open_rig

    @pytest.fixture
    def rig(self, open_rig: OpenRig) -> Rig:
        """A rig whose backend keeps every finished job."""
        return open_rig(KEEP)

    @pytest.fixture
    def second(self, rig: Rig) -> Backend:
        """A second backend on the rig's store, as another process has one; the test is skipped where there is none."""
        if self.same_store is False:
            pytest.skip("the store lives within one backend object")
        second = rig.another()
        probe = rig.add(queue=rig.new_queue(), delay=LONG)
        shared = probe.id in second.get(probe.queue, [probe.id])
        if self.same_store is None and not shared:
            pytest.skip("a second backend of this URL does not see what the first has stored")
        assert shared, "two backends of one store do not see each other's jobs"
        return second
