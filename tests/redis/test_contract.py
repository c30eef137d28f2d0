"""The conformance suite on every Redis and Valkey found, at one partition and at eight."""

from __future__ import annotations

import pytest

from scheduler.testing.contract import BackendContract
from scheduler.testing.rig import OpenBackend
from scheduler_backends.redis import RedisBackend, RedisConfig


@pytest.mark.every_flavour
class TestOnePartition(BackendContract):
    examples = 20  # every step is a round trip; the long run draws more

    @pytest.fixture
    def open_backend(self, redis_url, redis_prefix) -> OpenBackend:
        return lambda **options: RedisBackend(redis_url, RedisConfig(prefix=redis_prefix, partitions=1), **options)


class TestEightPartitions(BackendContract):
    examples = 20  # every step is a round trip; the long run draws more

    @pytest.fixture
    def open_backend(self, redis_url, redis_prefix) -> OpenBackend:
        return lambda **options: RedisBackend(redis_url, RedisConfig(prefix=redis_prefix), **options)
