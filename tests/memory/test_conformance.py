"""The conformance suite on memory, with one partition and with eight."""

from __future__ import annotations

from functools import partial

import pytest

from scheduler.testing.contract import BackendContract
from scheduler.testing.harness import OpenBackend
from scheduler_backends.memory import MemoryBackend


class TestMemoryBackend(BackendContract):
    backend_type = MemoryBackend

    @pytest.fixture(params=[1, 8], ids="{}-partitions".format)
    def open_backend(self, request: pytest.FixtureRequest) -> OpenBackend:
        return partial(MemoryBackend, partitions=request.param)
