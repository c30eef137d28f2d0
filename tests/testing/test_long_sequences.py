"""A thousand sequences of fifty moves, on memory with one partition and with eight."""

from __future__ import annotations

from functools import partial

import pytest

from scheduler.testing.contract.fixtures import ContractFixtures
from scheduler.testing.contract.suite import SequencesContract
from scheduler.testing.harness import OpenBackend
from scheduler_backends.memory import MemoryBackend


@pytest.mark.long
@pytest.mark.timeout(1_800)
class TestMemoryBackend(SequencesContract, ContractFixtures):
    examples = 1_000
    steps = 50

    @pytest.fixture(params=[1, 8], ids="{}-partitions".format)
    def open_backend(self, request: pytest.FixtureRequest) -> OpenBackend:
        return partial(MemoryBackend, partitions=request.param)
