"""Queue versions, and the partition of a job."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.identity import new_id
from scheduler.topology import MAX_PARTITIONS, QueueTopology, QueueVersion, VersionState, partition_of

ACTIVE = QueueVersion(version=3, partitions=8, state=VersionState.ACTIVE)
DRAINING = [QueueVersion(version=number, partitions=4, state=VersionState.DRAINING) for number in (1, 2)]


def test_a_topology_tells_the_active_version_from_the_draining_ones() -> None:
    topology = QueueTopology(queue="mail", epoch=3, versions=(*DRAINING, ACTIVE))
    assert topology.active is ACTIVE
    assert topology.draining == tuple(DRAINING)


@pytest.mark.parametrize(
    ("job_id", "partitions", "partition"), [("order-1", 8, 7), ("ä/日本", 8, 7), ("order-1", 256, 239), ("x", 1, 0)]
)
def test_the_partition_of_an_id_never_changes(job_id: str, partitions: int, partition: int) -> None:
    """Stored jobs are found again by other processes and later versions: these values are a promise."""
    assert partition_of(job_id, partitions) == partition


@given(st.text(st.characters(exclude_categories=["Cs"])), st.integers(1, MAX_PARTITIONS))
def test_every_id_has_a_partition(job_id: str, partitions: int) -> None:
    assert 0 <= partition_of(job_id, partitions) < partitions


def test_ids_made_in_a_row_spread_evenly() -> None:
    """10,000 ids over 16 partitions: 625 each expected, and 400 to 850 is nine standard deviations around it."""
    counts = Counter(partition_of(new_id(), 16) for _ in range(10_000))
    assert len(counts) == 16
    assert all(400 < count < 850 for count in counts.values())
