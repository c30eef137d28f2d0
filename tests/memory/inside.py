"""Looks into a memory backend: every place must agree with the rows, and nothing may be kept for nothing."""

from __future__ import annotations

import gc
from collections import Counter

from scheduler.states import LIVE, TERMINAL, JobState
from scheduler_backends.memory import MemoryBackend
from scheduler_backends.memory.chains import JobList
from scheduler_backends.memory.groups import LeaseBatch
from scheduler_backends.memory.queues import MemoryQueue
from scheduler_backends.memory.stored_job import StoredJob
from scheduler_backends.memory.timetables import DeadlineHeap

SLACK = 64  # entries that a timetable may keep for nothing


def check_inside(backend: MemoryBackend) -> None:
    """Nothing else may use *backend* meanwhile."""
    backend.ping()  # which also puts in order what was cut short
    for queue in backend._store.queues.values():
        check_queue(queue)


def check_queue(queue: MemoryQueue) -> None:
    found: Counter[StoredJob] = Counter()
    ready = 0
    for version in queue.versions.values():
        for state in JobState:
            for partition, priority, chain in version.places_of(state):
                rows = _walk(chain)
                found.update(rows)
                assert chain.state is state
                for row in rows:
                    assert row.state is state
                    assert row.chain is chain
                    assert row.partition.version is version
                    assert row.partition is version.partition_for(row.id)
                    if state is JobState.READY:
                        assert (row.partition.index, row.priority) == (partition, priority)
                if state is JobState.READY:
                    ready += len(rows)
    assert found == Counter(queue.jobs.values()), "a row is in no place, or in two, or was forgotten elsewhere"
    assert queue.ready == ready
    turns = list(queue._turns)
    assert len(turns) == len(set(turns))
    assert {row.partition for row in found if row.state is JobState.READY} <= set(turns)
    assert all(partition.in_turn for partition in turns)
    waiting = sorted(row.id for row in found if row.due_at is not None)
    assert waiting == sorted(row.id for due in queue._due for row in _listed(due))
    for state in TERMINAL:
        assert sorted(row.id for row in found if row.state is state) == sorted(
            row.id for row in _listed(queue._finished[state])
        )
    by_token = queue.leases.groups
    groups = [group for some in by_token.values() for group in some]
    assert all(group.rows for group in groups)
    assert sorted(_listed(queue.leases._expiries), key=id) == sorted(groups, key=id)
    assert {id(row) for row in found if row.group} == {id(row) for group in groups for row in group.rows.values()}
    for row in found:
        assert (row.group is not None) == (row.state is JobState.LEASED)
        assert row.group is None or (row.group in by_token[row.group.token] and row.group.rows[row.id] is row)
        assert (row.finished_at is None) == (row.state in LIVE)


def _walk(chain: JobList) -> list[StoredJob]:
    rows = list(chain.following())
    assert len(rows) == chain.size
    assert [row.stamp for row in rows] == sorted({row.stamp for row in rows})
    backwards = []
    row = chain.last
    while row is not None:
        backwards.append(row)
        row = row.before
    assert backwards[::-1] == rows
    return rows


def _listed(timetable: DeadlineHeap) -> list:
    items = [item for _, entry_id, item in timetable._heap if item.entry_id == entry_id]
    assert len(items) == timetable.size
    assert len(timetable._heap) <= 2 * timetable.size + SLACK
    return items


def rows_alive() -> int:
    """How many rows and lease groups this process keeps, for whatever reason."""
    gc.collect()
    # Not isinstance: it asks an object that is only a proxy, such as the settings of a framework, for its class.
    return sum(issubclass(type(thing), StoredJob | LeaseBatch) for thing in gc.get_objects())
