"""Enqueue: route each job to its partition, open the gates of new partitions, and recognise jobs stored before."""

from __future__ import annotations

from collections import defaultdict
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

SLICE_BYTES = 4 * 1024 * 1024  # of payload in one round trip, so that no call blocks the server for long


_Addressed = tuple[int, NewJob, bytes]  # position in the call, job, encoded id
_ByPartition = Mapping[Partition, Sequence[_Addressed]]
_Answers = list[Enqueued | None]


class EnqueueHooks:
    """Hook of `Backend.enqueue`."""

    _store: Store

    def _enqueue(self, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        """Enqueue *jobs*, at most 1,000 jobs or about 4 MiB of payload in one round trip."""
        self._store.calls.check_open()
        answers: _Answers = [None] * len(jobs)
        for numbers in _slices(jobs):
            _enqueue_slice(self._store, jobs, numbers, answers)
        return cast("list[Enqueued]", answers)


def _enqueue_slice(store: Store, jobs: Sequence[NewJob], numbers: Sequence[int], answers: _Answers) -> None:
    """Enqueue one slice: one round trip, unless a gate is not open or a version is draining."""
    fresh = False
    for _ in range(ROUNDS):
        by_partition, older = _route(store, jobs, numbers, fresh=fresh)
        if older:
            _look(store, older, answers)
            by_partition = {
                partition: left
                for partition, addressed in by_partition.items()
                if (left := [one for one in addressed if answers[one[0]] is None])
            }
        shut = _send(store, by_partition, answers) if by_partition else []
        numbers = [number for number in numbers if answers[number] is None]
        if not numbers:
            return
        # The gate was never opened, or was sealed because the version drains: read the layout again, open new gates.
        fresh = True
        for queue in {job.queue for job in shut}:
            layout = store.layouts.create(queue)
            store.layouts.open(layout, {layout.home(job.id) for job in shut if job.queue == queue})
    raise BackendUnavailable("the queue's versions change faster than jobs can be enqueued")


def _route(
    store: Store, jobs: Sequence[NewJob], numbers: Sequence[int], *, fresh: bool
) -> tuple[_ByPartition, _ByPartition]:
    """
    Return the jobs by the partition where each belongs, and by other partitions where its id may exist.

    The latter are partitions of draining versions.
    """
    layouts: dict[str, Layout] = {}
    homes: defaultdict[Partition, list[_Addressed]] = defaultdict(list)
    older: defaultdict[Partition, list[_Addressed]] = defaultdict(list)
    for number in numbers:
        job = jobs[number]
        layout = layouts.get(job.queue)
        if layout is None:
            layout = layouts[job.queue] = store.layouts.of(job.queue, fresh=fresh)
        addressed = (number, job, job.id.encode())
        homes[layout.home(job.id)].append(addressed)
        if layout.drains:
            for other in layout.homes(job.id)[1:]:
                older[other].append(addressed)
    return homes, older


def _look(store: Store, by_partition: _ByPartition, answers: _Answers) -> None:
    """Set the missing answers of the jobs whose id is stored in these partitions."""
    calls = [Call(GET, partition, tuple(raw for _, _, raw in some)) for partition, some in by_partition.items()]
    for (partition, some), views in zip(by_partition.items(), store.calls.all(calls), strict=True):
        for (number, job, _), view in zip(some, cast("list[list[bytes] | None]", views), strict=True):
            if view and answers[number] is None:
                answers[number] = known(job, partition, view)


def _send(store: Store, by_partition: _ByPartition, answers: _Answers) -> list[NewJob]:
    """
    Store jobs and set their answers. Return the jobs whose partition is not open.

    They get no answer. Neither does a job whose id was in use, if the other job has been deleted meanwhile.
    """
    calls = []
    now = store.calls.now()
    for partition, addressed in by_partition.items():
        args: list[Word] = [now, partition.channel]
        for _, job, raw in addressed:
            args += (raw, when_of(job), body_of(job))
        calls.append(Call(ENQUEUE, partition, tuple(args)))
    shut: list[NewJob] = []
    there: defaultdict[Partition, list[_Addressed]] = defaultdict(list)
    repeats: dict[int, Enqueued | None] = {}
    for (partition, addressed), answer in zip(by_partition.items(), store.calls.all(calls), strict=True):
        now_us, is_open, *taken = cast("tuple[bytes, int, *tuple[int, ...]]", answer)
        if not is_open:
            shut += (job for _, job, _ in addressed)
            continue
        stored_at = int(now_us)
        for number, job, _ in addressed:
            answers[number] = stored(job, partition, stored_at)
        for place in taken:
            one = addressed[abs(place) - 1]
            there[partition].append(one)
            result, answers[one[0]] = answers[one[0]], None
            if place < 0:
                repeats[one[0]] = result
    if there:
        _look(store, there, answers)
        for number, result in repeats.items():  # if it has finished and was deleted since
            answers[number] = answers[number] or result
    return shut


def _slices(jobs: Sequence[NewJob]) -> Iterator[list[int]]:
    """Yield the positions of the jobs of each round trip: bounded in number and size, and without repeated ids."""
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
