"""The reads: jobs by id, pages of a state, numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

from scheduler.errors import BackendError, ConfigError
from scheduler.jobs import Job
from scheduler.limits import check_name
from scheduler.queues import QueueStats
from scheduler.states import JobState
from scheduler_backends.redis.calls import Call
from scheduler_backends.redis.client.router import Command
from scheduler_backends.redis.codec import job_of
from scheduler_backends.redis.errors import is_of_wrong_type, log, should_log
from scheduler_backends.redis.keys import READY, Partition
from scheduler_backends.redis.layout import Layout
from scheduler_backends.redis.scripts import COUNTED, GET, LIST, SLICE, STATS
from scheduler_backends.redis.store import Store

_PLACE = re.compile(r"(\d{1,7})\.(\d{1,3})\.([0-9a-f]*)\.([0-9a-f]*)\.([0-9a-f]*)")
_NUMBER = re.compile(rb"-?(inf|[0-9]{1,20}(\.[0-9]{1,20})?(e[-+]?[0-9]{1,3})?)")
_Mark = tuple[bytes, bytes, bytes]  # a place in one partition, as list.lua writes it
_START: _Mark = (b"", b"", b"")


class _Place(NamedTuple):
    version: int
    partition: int
    mark: _Mark


class ReadHooks:
    """The hooks that read, and `ping`."""

    _store: Store

    def ping(self) -> None:
        """Return when a server replies: in a cluster, the one that has the set of queues."""
        self._store.calls.plain(Command(self._store.keys.queues, (b"PING",)))

    def _get(self, queue: str, ids: Sequence[str]) -> Mapping[str, Job]:
        store = self._store
        store.calls.check_open()
        layout = store.layouts.of(queue)
        if not layout.exists:  # now: one that was not there before is read again each time
            return {}
        found: dict[str, Job] = {}
        missing = list(dict.fromkeys(ids))
        _find(store, layout, missing, found)
        if len(found) < len(missing):
            fresh = store.layouts.of(queue, fresh=True)
            if fresh.epoch != layout.epoch:
                _find(store, fresh, [one for one in missing if one not in found], found)
        return {one: found[one] for one in missing if one in found}

    def _list(self, queue: str, state: JobState, place: str | None, limit: int) -> tuple[Sequence[Job], str | None]:
        """By partition, the oldest version first; in each by the time of being due, becoming ready, or finishing."""
        store = self._store
        partitions = store.layouts.of(queue, fresh=True).partitions
        start = _Place(0, 0, _START) if place is None else _parse(state, place)
        found: dict[str, Job] = {}
        for partition in partitions:
            here = (partition.version, partition.number)
            if here < start[:2]:
                continue
            mark, more = start.mark if here == start[:2] else _START, 1
            while more:
                if len(found) >= limit:
                    words = ".".join(word.hex() for word in mark)
                    return list(found.values()), f"{here[0]}.{here[1]}.{words}"
                want = min(limit - len(found), SLICE)
                more, first, member, last, *flat = cast(
                    "tuple[int, bytes, bytes, bytes, *tuple[bytes | list[bytes], ...]]",
                    store.calls.one(LIST, partition, state.encode(), want, *mark),
                )
                mark = (first, member, last)
                for raw, view in zip(flat[::2], flat[1::2], strict=True):
                    if cast("list[bytes]", view)[0] == state.encode():
                        _read(partition, cast("bytes", raw), cast("list[bytes]", view), found)
        return list(found.values()), None

    def _stats(self, queues: Sequence[str] | None) -> Sequence[QueueStats]:
        """Counts are exact."""
        store = self._store
        layouts = store.layouts.readable(_known_queues(store)) if queues is None else store.layouts.read(queues)
        now = store.calls.now()
        partitions = [one for layout in layouts.values() if layout.exists for one in layout.partitions]
        answers = store.calls.run([Call(STATS, partition, (now,)) for partition in partitions])
        numbers: dict[tuple[str, int], list[list[int]]] = {}
        for partition, answer in zip(partitions, answers, strict=True):
            if isinstance(answer, BackendError):
                if queues is not None or not is_of_wrong_type(answer):
                    raise answer
                layouts.pop(partition.queue, None)  # its numbers cannot be had; those of the others can
                if should_log(f"{partition!r}: {answer}"):
                    log.warning("%r is left out of the numbers of all queues: %s", partition, answer)
                continue
            numbers.setdefault((partition.queue, partition.version), []).append(cast("list[int]", answer))
        rows = [
            _row(queue, layout, version.version, version.partitions, numbers.get((queue, version.version), []))
            for queue, layout in layouts.items()
            for version in layout.topology.versions
        ]
        return sorted(rows, key=lambda row: (row.queue, row.version))


def _find(store: Store, layout: Layout, ids: Sequence[str], found: dict[str, Job]) -> None:
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
    answers = store.calls.all([Call(GET, partition, tuple(some)) for partition, some in batches])
    for (partition, some), answer in zip(batches, answers, strict=True):
        for raw, view in zip(some, cast("list[list[bytes] | None]", answer), strict=True):
            if view:
                _read(partition, raw, view, found)


def _read(partition: Partition, raw: bytes, view: Sequence[bytes], found: dict[str, Job]) -> None:
    job = job_of(partition, raw, view)
    found.setdefault(job.id, job)


def _known_queues(store: Store) -> list[str]:
    """The queues of the store. Members of the set that are no names were added by another program, and are left out."""
    (members,) = store.calls.plain(Command(store.keys.queues, (b"SMEMBERS", store.keys.queues)))
    names = []
    for raw in cast("set[bytes] | list[bytes]", members):
        try:
            names.append(check_name("queue", raw.decode(), ConfigError))
        except (UnicodeDecodeError, ConfigError):
            if should_log(f"no queue {raw!r}"):
                log.warning("the set of queues, %r, holds %.99r, which names none", store.keys.queues, raw)
    return names


def _row(queue: str, layout: Layout, version: int, partitions: int, answers: list[list[int]]) -> QueueStats:
    waits = [answer[-1] for answer in answers if answer[-1] >= 0]
    return QueueStats(
        queue=queue,
        version=version,
        partitions=partitions,
        paused=layout.pause.endswith(b"1"),
        counts={state: sum(answer[place] for answer in answers) for place, state in enumerate(COUNTED)},
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
