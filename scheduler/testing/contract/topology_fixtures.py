"""Fixtures for tests of queue versions."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from scheduler.abilities import Finished, TopologyAdmin
from scheduler.backend import Backend
from scheduler.testing.harness import BackendHarness


class TopologyFixture(NamedTuple):
    """A harness, its backend as `TopologyAdmin`, and the first and next version of its queue."""

    harness: BackendHarness
    admin: TopologyAdmin
    first: int
    next: int

    def promote(self, partitions: int = 3) -> None:
        """Make the next version active."""
        self.admin.promote_queue_version(self.harness.queue, self.next, partitions)

    def complete(self, finished: Finished = "refuse") -> list[int]:
        """Complete the first version and return the remaining versions."""
        topology = self.admin.complete_draining_version(self.harness.queue, self.first, finished=finished)
        return [version.version for version in topology.versions]

    def versions(self) -> list[int]:
        """Return the current versions."""
        return [version.version for version in self.admin.topology(self.harness.queue).versions]


class TopologyFixtures:
    @pytest.fixture
    def topology_fixture(self, harness: BackendHarness) -> TopologyFixture:
        """Return a fixture for the harness, or skip if the backend has no versions."""
        admin = _admin(harness.backend)
        first = admin.topology(harness.queue).active.version
        return TopologyFixture(harness, admin, first, first + 1)


def _admin(backend: Backend) -> TopologyAdmin:
    if not isinstance(backend, TopologyAdmin):
        pytest.skip(f"{type(backend).__name__} does not offer TopologyAdmin")
    return backend
