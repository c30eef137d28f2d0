"""Enqueue: each job to its partition, through gates that must be opened first, and never twice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from scheduler.errors import BackendUnavailable
from scheduler.jobs import NewJob
from scheduler.leases import Enqueued
from scheduler_backends.redis.calls import Call
from scheduler_backends.redis.client.node import Word
from scheduler_backends.redis.codec import body_of, known, stored, when_of
from scheduler_backends.redis.keys import Partition
from scheduler_backends.redis.layout import Layout
from scheduler_backends.redis.layouts import ROUNDS
from scheduler_backends.redis.scripts import ENQUEUE, GET, SLICE
from scheduler_backends.redis.store import Store

SLICE_BYTES = 4 * 1024 * 1024  # of payload in one round trip, so that no call holds up the server for long


_Addressed = tuple[int, NewJob, bytes]  # its number in the call, the job, its id as the store writes it
_Known = tuple[_Addressed, Partition, bool]  # whose id is taken, there, by an earlier try of the same NewJob


class EnqueueHooks:
    """The hook of `Backend.enqueue`."""

    _store: Store

    def _enqueue(self, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        """At most 1,000 jobs or 4 MiB of payload go in one round trip."""
        self._store.calls.check_open()
        answers: list[Enqueued | None] = [None] * len(jobs)
        for numbers in _slices(jobs):
            _enqueue_slice(self._store, jobs, numbers, answers)
        return cast("list[Enqueued]", answers)


def _enqueue_slice(
    store: Store, jobs: Sequence[NewJob], numbers: Sequence[int], answers: list[Enqueued | None]
) -> None:
    """One round trip, unless a gate is shut or a version drains."""
    fresh = False
    for _ in range(ROUNDS):
        by_partition, older = _route(store, jobs, numbers, fresh=fresh)
        if older:
            _look_in_draining(store, older, answers)
            by_partition = {
                partition: left
                for partition, addressed in by_partition.items()
                if (left := [one for one in addressed if answers[one[0]] is None])
            }
        shut, there = _send(store, by_partition, answers) if by_partition else ([], [])
        gone = _answer_known(store, there, answers) if there else []
        if not shut and not gone:
            return
        # Never opened, or sealed because this version drains. Look again, and open what is new.
        fresh = True
        numbers = [number for number, _, _ in (*shut, *gone)]
        for queue in {job.queue for _, job, _ in shut}:
            layout = store.layouts.create(queue)
            store.layouts.open(layout, {layout.home(job.id) for _, job, _ in shut if job.queue == queue})
    raise BackendUnavailable("the queue's versions change faster than jobs can be enqueued")


def _route(
    store: Store, jobs: Sequence[NewJob], numbers: Sequence[int], *, fresh: bool
) -> tuple[dict[Partition, list[_Addressed]], dict[Partition, list[_Addressed]]]:
    """Where each job goes, and where else a job of its id may be: in the versions that drain."""
    layouts: dict[str, Layout] = {}
    homes: dict[Partition, list[_Addressed]] = {}
    older: dict[Partition, list[_Addressed]] = {}
    for number in numbers:
        job = jobs[number]
        layout = layouts.get(job.queue)
        if layout is None:
            layout = layouts[job.queue] = store.layouts.of(job.queue, fresh=fresh)
        addressed = (number, job, job.id.encode())
        home = layout.home(job.id)
        if home in homes:
            homes[home].append(addressed)
        else:
            homes[home] = [addressed]
        if layout.drains:
            for other in layout.homes(job.id)[1:]:
                older.setdefault(other, []).append(addressed)
    return homes, older


def _look_in_draining(
    store: Store, older: Mapping[Partition, Sequence[_Addressed]], answers: list[Enqueued | None]
) -> None:
    """Fill in the jobs that a draining version has: an id is taken whatever version has it."""
    calls = [Call(GET, partition, tuple(raw for _, _, raw in some)) for partition, some in older.items()]
    for (partition, some), views in zip(older.items(), store.calls.all(calls), strict=True):
        for (number, job, _), view in zip(some, cast("list[list[bytes] | None]", views), strict=True):
            if view and answers[number] is None:
                answers[number] = known(job, partition, view)


def _send(
    store: Store, by_partition: Mapping[Partition, Sequence[_Addressed]], answers: list[Enqueued | None]
) -> tuple[list[_Addressed], list[_Known]]:
    """Store what can be stored. Return the jobs whose partition is shut, and those whose id is taken."""
    calls = []
    now = store.calls.now()
    for partition, addressed in by_partition.items():
        args: list[Word] = [now, store.keys.channel(partition.queue)]
        for _, job, raw in addressed:
            args += (raw, when_of(job), body_of(job))
        calls.append(Call(ENQUEUE, partition, tuple(args)))
    shut: list[_Addressed] = []
    there: list[_Known] = []
    for (partition, addressed), answer in zip(by_partition.items(), store.calls.all(calls), strict=True):
        now_us, is_open, *taken = cast("list[bytes | int]", answer)
        if not is_open:
            shut += addressed
            continue
        stored_at = int(now_us)
        for number, job, _ in addressed:
            answers[number] = stored(job, partition, stored_at)
        there += ((addressed[abs(place) - 1], partition, place < 0) for place in cast("list[int]", taken))
    return shut, there


def _answer_known(store: Store, there: Sequence[_Known], answers: list[Enqueued | None]) -> list[_Addressed]:
    """Fill in the jobs whose id is taken. Return those where the job with that id has been deleted meanwhile."""
    calls = [Call(GET, partition, (raw,)) for (_, _, raw), partition, _ in there]
    gone: list[_Addressed] = []
    for (addressed, partition, is_repeat), views in zip(there, store.calls.all(calls), strict=True):
        number, job, _ = addressed
        (view,) = cast("list[list[bytes] | None]", views)
        if view:
            answers[number] = known(job, partition, view)
        elif not is_repeat:  # a repeat of what has run since: the result is that of storing it
            gone.append(addressed)
    return gone


def _slices(jobs: Sequence[NewJob]) -> Iterator[list[int]]:
    """Yield the numbers of jobs that may go in one round trip: not too many, not too large, and no id twice."""
    numbers: list[int] = []
    seen: set[tuple[str, str]] = set()
    size = 0
    for number, job in enumerate(jobs):
        name = (job.queue, job.id)
        if len(numbers) == SLICE or size > SLICE_BYTES or name in seen:
            yield numbers
            numbers, seen, size = [], set(), 0
        numbers.append(number)
        seen.add(name)
        size += len(job.payload)
    if numbers:
        yield numbers
