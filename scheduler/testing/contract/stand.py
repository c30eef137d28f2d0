"""The fixtures of the suite: what a backend's test file overrides, and what the tests are given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from scheduler.backend import Backend
from scheduler.queues import Retention
from scheduler.testing.invariants import check_invariants
from scheduler.testing.rig import KEEP, OpenBackend, Rig

OpenRig = Callable[[Retention], Rig]


class Stand:
    """Fixtures of every test of the suite."""

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
        """A second backend on the rig's store, as another process has one; skipped where the store is in the object."""
        if rig.backend.in_process:
            pytest.skip("the jobs live within one backend object (in_process)")
        return rig.another()
