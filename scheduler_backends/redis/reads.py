"""Reading: jobs by id, pages of the jobs in one state, statistics."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

from scheduler.errors import BackendError, ConfigError
from scheduler.jobs import Job
from scheduler.limits import check_name
from scheduler.queues import QueueStats
from scheduler.states import JobState
from scheduler_backends.redis.by_id import call_on_ids
from scheduler_backends.redis.calls import Call
from scheduler_backends.redis.client.node import Command
from scheduler_backends.redis.codec import job_of
from scheduler_backends.redis.errors import is_of_wrong_type, log, should_log
from scheduler_backends.redis.keys import READY, Partition
from scheduler_backends.redis.layout import Layout
from scheduler_backends.redis.scripts import COUNTED, GET, LIST, SLICE, STATS
from scheduler_backends.redis.store import Store

_PLACE = re.compile(r"(\d{1,7})\.(\d{1,3})\.([0-9a-f]*)\.([0-9a-f]*)\.([0-9a-f]*)")
_NUMBER = re.compile(rb"-?(inf|[0-9]{1,20}(\.[0-9]{1,20})?(e[-+]?[0-9]{1,3})?)")
_LEVEL, _OCCURRENCE = re.compile(b"[0-%d]" % (len(READY) - 1)), re.compile(b"[1-9][0-9]{0,9}")
_Mark = tuple[bytes, bytes, bytes]  # a position in one partition, as list.lua returns it
_START: _Mark = (b"", b"", b"")


class _Place(NamedTuple):
    version: int
    partition: int
    mark: _Mark


class ReadHooks:
    """Hooks of the methods that read, and `ping`."""

    _store: Store

    def ping(self) -> None:
        """Wait for a reply of the server; in a cluster, of the node with the set of queues. Raises if none comes."""
        self._store.calls.plain(Command(self._store.keys.queues, (b"PING",)))

    def _get(self, queue: str, ids: Sequence[str]) -> Mapping[str, Job]:
        names = list(dict.fromkeys(ids))
        found: dict[str, Job] = {}

        def take(number: int, partition: Partition, view: object) -> bool:
            if view:
                found[names[number]] = job_of(partition, names[number].encode(), cast("list[bytes]", view))
            return bool(view)

        call_on_ids(self._store, queue, names, GET, (), take=take)
        return {one: found[one] for one in names if one in found}

    def _list(self, queue: str, state: JobState, place: str | None, limit: int) -> tuple[Sequence[Job], str | None]:
        """Return one page, ordered by partition (the oldest version first), then as its index is sorted."""
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
                        job = job_of(partition, cast("bytes", raw), cast("list[bytes]", view))
                        found.setdefault(job.id, job)
        return list(found.values()), None

    def _stats(self, queues: Sequence[str] | None) -> Sequence[QueueStats]:
        """Return statistics with exact counts, sorted by queue and version."""
        store = self._store
        names = _known_queues(store) if queues is None else queues
        layouts = store.layouts.read(names, skip_damaged=queues is None)
        now = store.calls.now()
        partitions = [one for layout in layouts.values() if layout.exists for one in layout.partitions]
        answers = store.calls.run([Call(STATS, partition, (now,)) for partition in partitions])
        numbers: dict[Partition, list[int]] = {}
        for partition, answer in zip(partitions, answers, strict=True):
            if isinstance(answer, BackendError):
                if queues is not None or not is_of_wrong_type(answer):
                    raise answer
                layouts.pop(partition.queue, None)  # the statistics of the other queues are still returned
                if should_log(f"{partition!r}: {answer}"):
                    log.warning("%r is left out of the statistics of all queues: %s", partition, answer)
                continue
            numbers[partition] = cast("list[int]", answer)
        rows = [
            _row(layout, of_version, [numbers[one] for one in of_version if one in numbers])
            for layout in layouts.values()
            for of_version in layout.versions
        ]
        return sorted(rows, key=lambda row: (row.queue, row.version))


def _known_queues(store: Store) -> list[str]:
    """Return the queues of the store. Members that are not valid names, added by another program, are skipped."""
    (members,) = store.calls.plain(Command(store.keys.queues, (b"SMEMBERS", store.keys.queues)))
    names = []
    for raw in cast("set[bytes] | list[bytes]", members):
        try:
            names.append(check_name("queue", raw.decode(), ConfigError))
        except (UnicodeDecodeError, ConfigError):
            if should_log(f"invalid queue {raw!r}"):
                message = "the set of queues, %r, contains %.99r, which is not a valid queue name"
                log.warning(message, store.keys.queues, raw)
    return names


def _row(layout: Layout, partitions: Sequence[Partition], answers: Sequence[Sequence[int]]) -> QueueStats:
    waits = [answer[-1] for answer in answers if answer[-1] >= 0]
    return QueueStats(
        queue=layout.topology.queue,
        version=partitions[0].version,
        partitions=len(partitions),
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
            possible = _LEVEL.fullmatch(first) is not None and _OCCURRENCE.fullmatch(last) is not None
        else:
            possible = _NUMBER.fullmatch(first) is not None
        if possible or (first, member, last) == _START:
            return _Place(int(version), int(partition), (first, member, last))
    except ValueError:
        pass
    raise ConfigError("cursor", "was not returned by this store")
