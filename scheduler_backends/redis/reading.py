"""The reads: jobs by id, pages of a state, numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast

from scheduler.errors import BackendError, ConfigError
from scheduler.jobs import Job
from scheduler.limits import check_name
from scheduler.queues import Page, QueueStats, cursor_of, place_of
from scheduler.states import JobState
from scheduler_backends.redis.calls import Call, Calls
from scheduler_backends.redis.codec import job_of
from scheduler_backends.redis.errors import is_news, is_of_wrong_type, log
from scheduler_backends.redis.keys import READY, Keys, Partition
from scheduler_backends.redis.layout import Layout
from scheduler_backends.redis.layouts import Layouts
from scheduler_backends.redis.routing import Command
from scheduler_backends.redis.scripts import GET, LIST, STATS

SLICE = 1_000  # jobs in one script
_COUNTED = (
    JobState.SCHEDULED,
    JobState.READY,
    JobState.LEASED,
    JobState.RETRY_WAIT,
    JobState.SUCCEEDED,
    JobState.DEAD,
    JobState.CANCELLED,
)  # in the order of stats.lua
_PLACE = re.compile(r"(\d{1,7})\.(\d{1,3})\.([0-9a-f]*)\.([0-9a-f]*)\.([0-9a-f]*)")
_NUMBER = re.compile(rb"-?[0-9]{1,20}(\.[0-9]{1,20})?(e\+?[0-9]{1,2})?")
_Mark = tuple[bytes, bytes, bytes]  # a place in one partition, as list.lua writes it
_START: _Mark = (b"", b"", b"")


class _Place(NamedTuple):
    version: int
    partition: int
    mark: _Mark


class Reading:
    """Reads. Any thread."""

    def __init__(self, calls: Calls, layouts: Layouts, keys: Keys) -> None:
        self._calls = calls
        self._layouts = layouts
        self._keys = keys

    def get(self, queue: str, ids: Iterable[str]) -> dict[str, Job]:
        """As `Backend.get`; the ids are such as jobs can have."""
        layout = self._layouts.of(queue)
        if not layout.exists:  # now: one that was not there before is read again each time
            return {}
        found: dict[str, Job] = {}
        missing = list(dict.fromkeys(ids))
        self._find(layout, missing, found)
        if len(found) < len(missing):
            fresh = self._layouts.of(queue, fresh=True)
            if fresh.epoch != layout.epoch:
                self._find(fresh, [one for one in missing if one not in found], found)
        return {one: found[one] for one in missing if one in found}

    def _find(self, layout: Layout, ids: Sequence[str], found: dict[str, Job]) -> None:
        if not layout.exists:
            return
        by_partition: dict[Partition, list[bytes]] = {}
        for one in ids:
            for partition in layout.homes(one):
                by_partition.setdefault(partition, []).append(one.encode())
        batches = [
            (partition, held[start : start + SLICE])
            for partition, held in by_partition.items()
            for start in range(0, len(held), SLICE)
        ]
        answers = self._calls.all([Call(GET, partition, tuple(some)) for partition, some in batches])
        for (partition, some), answer in zip(batches, answers, strict=True):
            for raw, view in zip(some, cast("list[list[bytes] | None]", answer), strict=True):
                if view:
                    self._read(partition, raw, view, found)

    @staticmethod
    def _read(partition: Partition, raw: bytes, view: Sequence[bytes], found: dict[str, Job]) -> None:
        job = job_of(partition, raw, view)
        found.setdefault(job.id, job)

    def page(self, queue: str, state: JobState, cursor: str | None, limit: int) -> Page:
        """As `Backend.list`: partition by partition, the oldest version first."""
        partitions = self._layouts.of(queue, fresh=True).partitions
        place = _Place(0, 0, _START) if cursor is None else _parse(state, place_of(queue, state, cursor))
        found: dict[str, Job] = {}
        for partition in partitions:
            here = (partition.version, partition.number)
            if here < place[:2]:
                continue
            mark, more = place.mark if here == place[:2] else _START, 1
            while more:
                if len(found) >= limit:
                    words = ".".join(word.hex() for word in mark)
                    return Page(
                        jobs=tuple(found.values()), cursor=cursor_of(queue, state, f"{here[0]}.{here[1]}.{words}")
                    )
                want = min(limit - len(found), SLICE)
                more, first, member, last, *flat = cast(
                    "tuple[int, bytes, bytes, bytes, *tuple[bytes | list[bytes], ...]]",
                    self._calls.one(LIST, partition, state.encode(), want, *mark),
                )
                mark = (first, member, last)
                for raw, view in zip(flat[::2], flat[1::2], strict=True):
                    if cast("list[bytes]", view)[0] == state.encode():
                        self._read(partition, cast("bytes", raw), cast("list[bytes]", view), found)
        return Page(jobs=tuple(found.values()), cursor=None)

    def stats(self, queues: Sequence[str] | None) -> list[QueueStats]:
        """As `Backend.stats`."""
        layouts = self._layouts.readable(self._queues()) if queues is None else self._layouts.read(queues)
        now = self._calls.now()
        partitions = [one for layout in layouts.values() if layout.exists for one in layout.partitions]
        answers = self._calls.run([Call(STATS, partition, (now,)) for partition in partitions])
        numbers: dict[tuple[str, int], list[list[int]]] = {}
        for partition, answer in zip(partitions, answers, strict=True):
            if isinstance(answer, BackendError):
                if queues is not None or not is_of_wrong_type(answer):
                    raise answer
                layouts.pop(partition.queue, None)  # its numbers cannot be had; those of the others can
                if is_news(f"{partition!r}: {answer}"):
                    log.warning("%r is left out of the numbers of all queues: %s", partition, answer)
                continue
            numbers.setdefault((partition.queue, partition.version), []).append(cast("list[int]", answer))
        rows = [
            _row(queue, layout, version.version, version.partitions, numbers.get((queue, version.version), []))
            for queue, layout in layouts.items()
            for version in layout.topology.versions
        ]
        return sorted(rows, key=lambda row: (row.queue, row.version))

    def _queues(self) -> list[str]:
        """All queues of the store; what is no name of one was put into the set by somebody else."""
        (members,) = self._calls.plain(Command(self._keys.queues, (b"SMEMBERS", self._keys.queues)))
        names = []
        for raw in cast("set[bytes] | list[bytes]", members):
            try:
                names.append(check_name("queue", raw.decode(), ConfigError))
            except (UnicodeDecodeError, ConfigError):
                if is_news(f"no queue {raw!r}"):
                    log.warning("the set of queues, %r, holds %.99r, which names none", self._keys.queues, raw)
        return names


def _row(queue: str, layout: Layout, version: int, partitions: int, answers: list[list[int]]) -> QueueStats:
    waits = [answer[-1] for answer in answers if answer[-1] >= 0]
    return QueueStats(
        queue=queue,
        version=version,
        partitions=partitions,
        paused=layout.pause.endswith(b"1"),
        counts={state: sum(answer[place] for answer in answers) for place, state in enumerate(_COUNTED)},
        oldest_ready_age=max(waits) / 1_000_000 if waits else None,
    )


def _parse(state: JobState, text: str) -> _Place:
    found = _PLACE.fullmatch(text)
    try:
        version, partition, *words = found.groups() if found else ()
        first, member, last = (bytes.fromhex(word) for word in words)
        if state is JobState.READY and first:
            possible = int(first) in range(len(READY)) and int(last) > 0
        else:
            possible = _NUMBER.fullmatch(first) is not None
        if possible or (first, member, last) == _START:
            return _Place(int(version), int(partition), (first, member, last))
    except ValueError:
        pass
    raise ConfigError("cursor", "is not one that this store made")
