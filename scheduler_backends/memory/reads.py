"""Hooks of the memory backend: get, list and stats."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime

from scheduler.errors import ConfigError
from scheduler.jobs import Job
from scheduler.queues import QueueStats
from scheduler.states import JobState
from scheduler_backends.memory.queue import MemoryQueue
from scheduler_backends.memory.store import Store

# version, partition, priority, serial and id of the last job of the page
_PLACE = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d)\.(-?\d{1,18})\.(.+)")


class ReadHooks:
    """Hooks of the calls that only read."""

    _store: Store

    def _get(self, queue: str, ids: Sequence[str]) -> Mapping[str, Job]:
        def find(id: str, _: datetime) -> Job | None:
            stored = self._store.peek(queue).jobs.get(id)
            return None if stored is None else stored.job()

        found = self._store.in_slices(ids, find)
        return {job.id: job for job in found if job is not None}

    def _list(self, queue: str, state: JobState, place: str | None, limit: int) -> tuple[Sequence[Job], str | None]:
        """List by version, partition and priority (as far as jobs are kept by them), then in order of entry."""
        jobs: list[Job] = []
        following = place

        def read(most: int, _: datetime) -> int:
            nonlocal following
            page, following = _page(self._store.peek(queue), state, following, most)
            jobs.extend(page)
            return 0 if following is None else most  # a page that is not the last one is full

        self._store.in_portions(limit, read)
        return jobs, following

    def _stats(self, queues: Sequence[str] | None) -> Sequence[QueueStats]:
        """Return exact counts."""
        with self._store.lock:
            now = self._store.look()
            names = sorted(self._store.queues if queues is None else queues)
            return [numbers for name in names for numbers in _numbers(self._store.peek(name), now)]


def _page(queue: MemoryQueue, state: JobState, place: str | None, limit: int) -> tuple[list[Job], str | None]:
    at, serial, id = _read(place)
    near = queue.jobs.get(id)
    if near is not None and (near.serial != serial or near.state is not state):
        near = None
    jobs: list[Job] = []
    last = ""
    for here, listed in queue.lists(state):
        if here < at:
            continue
        for stored in listed.after_serial(serial, near) if here == at else listed.after_serial():
            if len(jobs) == limit:
                return jobs, last
            jobs.append(stored.job())
            last = "{}.{}.{}.{}.{}".format(*here, stored.serial, stored.id)
    return jobs, None


def _read(place: str | None) -> tuple[tuple[int, ...], float, str]:
    if place is None:
        return (), float("-inf"), ""
    match = _PLACE.fullmatch(place)
    if match is None:
        raise ConfigError("cursor", "must be one that an earlier page of this list returned, or None")
    *numbers, serial, id = match.groups()
    return tuple(map(int, numbers)), int(serial), id


def _numbers(queue: MemoryQueue, now: datetime) -> list[QueueStats]:
    return [
        QueueStats(
            queue=queue.topology.queue,
            version=version.version,
            partitions=version.partitions,
            paused=queue.paused,
            counts=queue.counts(version.version),
            oldest_ready_age=_oldest_ready_age(queue, version.version, now),
        )
        for version in queue.topology.versions
    ]


def _oldest_ready_age(queue: MemoryQueue, version: int, now: datetime) -> float | None:
    firsts = [jobs.first for _, jobs in queue.lists(JobState.READY, version)]
    since = min((first.ready_at for first in firsts if first is not None), default=None)
    return None if since is None else max(0.0, (now - since).total_seconds())  # the clock may have gone back
