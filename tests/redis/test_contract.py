"""The conformance suite and its state machine on every Redis and Valkey found, in a cluster, and behind Sentinel."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from redis_damages import OF_IDS, OF_JOBS, OF_QUEUES, SOME_OF_JOBS
from scheduler.testing.contract import BackendContract
from scheduler.testing.contract.fixtures import ContractFixtures
from scheduler.testing.contract.suite import SequencesContract
from scheduler.testing.harness import OpenBackend
from scheduler_backends.redis import RedisBackend, RedisConfig
from servers.redis_sentinel import SentinelGroup


def _opens(url: str, prefix: str, partitions: int) -> OpenBackend:
    return lambda **options: RedisBackend(url, RedisConfig(prefix=prefix, partitions=partitions), **options)


@pytest.mark.every_flavour(further="long")
class TestOnePartition(BackendContract):
    """By RESP2."""

    backend_type = RedisBackend

    examples = 25  # every step is some round trips; more are drawn below
    damages = OF_JOBS
    damages_of_queue = OF_QUEUES
    damages_of_id = OF_IDS

    @pytest.fixture
    def open_backend(self, redis_url, redis_prefix) -> OpenBackend:
        return _opens(f"{redis_url}?protocol=2", redis_prefix, 1)


@pytest.mark.every_flavour(further="long")
class TestEightPartitions(BackendContract):
    """By RESP3."""

    backend_type = RedisBackend

    examples = 25
    damages = SOME_OF_JOBS

    @pytest.fixture
    def open_backend(self, redis_url, redis_prefix) -> OpenBackend:
        return _opens(f"{redis_url}?protocol=3", redis_prefix, 8)


@pytest.mark.long
@pytest.mark.timeout(3_600)
class TestLongSequences(SequencesContract, ContractFixtures):
    examples = 1_000
    steps = 50

    @pytest.fixture(params=[1, 8], ids=["1-partition", "8-partitions"])
    def open_backend(self, redis_url, redis_prefix, request) -> OpenBackend:
        return _opens(redis_url, redis_prefix, request.param)


@pytest.mark.long  # the same scripts as above; what is different about a cluster is tested in test_cluster.py
class TestCluster(BackendContract):
    backend_type = RedisBackend

    @pytest.fixture
    def open_backend(self, redis_cluster, redis_prefix) -> OpenBackend:
        return _opens(redis_cluster.url, redis_prefix, 8)


@pytest.fixture(scope="session")
def sentinel_group(redis_flavour) -> Iterator[SentinelGroup]:
    """One for all tests of this process."""
    if redis_flavour.programs is None:
        pytest.skip("Sentinels find each other as processes of this machine alone")
    with SentinelGroup(redis_flavour.programs) as group:
        yield group


@pytest.mark.long  # the same server as above; what is different about Sentinel is tested in test_sentinel.py
class TestSentinel(BackendContract):
    backend_type = RedisBackend

    @pytest.fixture
    def open_backend(self, sentinel_group, redis_prefix) -> OpenBackend:
        return _opens(sentinel_group.url, redis_prefix, 8)
