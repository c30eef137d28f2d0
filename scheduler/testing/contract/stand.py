"""The fixtures of the suite: what a backend's test file overrides, and what the tests are given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import ClassVar

import pytest

from scheduler.backend import Backend
from scheduler.queues import Retention
from scheduler.testing.contract.offered import leave_out_what_is_not_offered
from scheduler.testing.invariants import check_invariants
from scheduler.testing.rig import KEEP, OpenBackend, Rig

OpenRig = Callable[[Retention], Rig]


class Stand:
    """
    Fixtures of every test of the suite.

    backend_type: the class under test, where it is known before a backend is opened. Tests of abilities that it lacks
    are then not collected; where it is None they are skipped, one by one.
    """

    backend_type: ClassVar[type[Backend] | None] = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.backend_type is not None:
            leave_out_what_is_not_offered(cls, cls.backend_type)

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
                assert self.backend_type is None or isinstance(rig.backend, self.backend_type)
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
