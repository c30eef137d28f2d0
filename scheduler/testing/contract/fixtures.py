"""The fixtures of the suite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import ClassVar

import pytest

from scheduler.backend import Backend
from scheduler.queues import Retention
from scheduler.testing.contract.offered import leave_out_what_is_not_offered
from scheduler.testing.harness import KEEP, BackendHarness, OpenBackend
from scheduler.testing.invariants import check_invariants

OpenHarness = Callable[[Retention], BackendHarness]


class ContractFixtures:
    """
    Fixtures for all tests of the suite.

    Attributes:
        backend_type: The class of the backend under test, if it is known in advance. Tests of abilities that it lacks
            are not collected. None = these tests are collected and skipped.
    """

    backend_type: ClassVar[type[Backend] | None] = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.backend_type is not None:
            leave_out_what_is_not_offered(cls, cls.backend_type)

    @pytest.fixture
    def open_backend(self) -> OpenBackend:
        """Return a callable that takes `clock` and `retention` and opens a backend. Must be overridden."""
        raise NotImplementedError(f"{type(self).__name__} must override the fixture open_backend")

    @pytest.fixture
    def open_harness(self, open_backend: OpenBackend) -> Iterator[OpenHarness]:
        """Return a function that opens a harness. After the test its invariants are checked, and it is closed."""
        with ExitStack() as stack:

            def open_harness(retention: Retention) -> BackendHarness:
                harness = stack.enter_context(BackendHarness(open_backend, retention=retention))
                assert self.backend_type is None or isinstance(harness.backend, self.backend_type)
                stack.callback(check_invariants, harness)
                return harness

            yield open_harness

    @pytest.fixture
    def harness(self, open_harness: OpenHarness) -> BackendHarness:
        """Return a harness whose backend keeps every finished job."""
        return open_harness(KEEP)

    @pytest.fixture
    def second(self, harness: BackendHarness) -> Backend:
        """Open a second backend on the same store, as another process would. Skip if the backend is `in_process`."""
        if harness.backend.in_process:
            pytest.skip("the jobs live within one backend object (in_process)")
        return harness.another()
