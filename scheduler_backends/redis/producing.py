"""Enqueue: to the right partition, past gates that are shut, and never twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from scheduler.errors import BackendUnavailable
from scheduler.jobs import NewJob
from scheduler.leases import Enqueued
from scheduler_backends.redis.calls import Call, Calls
from scheduler_backends.redis.codec import body_of, is_repeat, job_of, stored, when_of
from scheduler_backends.redis.keys import Keys, Partition
from scheduler_backends.redis.layouts import ROUNDS, Layouts
from scheduler_backends.redis.routing import Word
from scheduler_backends.redis.scripts import ENQUEUE, GET

SLICE = 1_000  # jobs in one script; Lua's unpack ends near 8,000 values
SLICE_BYTES = 4 * 1024 * 1024  # of payload in one round trip, so that no call holds up the server for long


class Producing:
    """Stores new jobs. Any thread."""

    def __init__(self, calls: Calls, layouts: Layouts, keys: Keys) -> None:
        self._calls = calls
        self._layouts = layouts
        self._keys = keys

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """As `Backend.enqueue`."""
        answers: list[Enqueued | None] = [None] * len(jobs)
        for numbers in _slices(jobs):
            self._enqueue(jobs, numbers, answers)
        return cast("list[Enqueued]", answers)

    def _enqueue(self, jobs: Sequence[NewJob], numbers: list[int], answers: list[Enqueued | None]) -> None:
        fresh = False
        for _ in range(ROUNDS):
            by_partition = self._route(jobs, numbers, answers, fresh=fresh)
            if not by_partition:
                return
            numbers = self._send(jobs, by_partition, answers)
            if not numbers:
                return
            # A gate was shut: never opened, or sealed because this version drains. Look again, and open what is new.
            fresh = True
            for queue in {jobs[number].queue for number in numbers}:
                layout = self._layouts.create(queue)
                shut = {
                    self._layouts.homes(layout, jobs[number].id)[0] for number in numbers if jobs[number].queue == queue
                }
                self._layouts.open(layout, shut)
        raise BackendUnavailable("the queue's versions change faster than jobs can be enqueued")

    def _route(
        self, jobs: Sequence[NewJob], numbers: list[int], answers: list[Enqueued | None], *, fresh: bool
    ) -> dict[Partition, list[int]]:
        """Where each job goes. Those that a draining version holds already are answered here."""
        layouts = {queue: self._layouts.of(queue, fresh=fresh) for queue in {jobs[number].queue for number in numbers}}
        by_partition: dict[Partition, list[int]] = {}
        look: list[tuple[int, Partition]] = []
        for number in numbers:
            job = jobs[number]
            home, *older = self._layouts.homes(layouts[job.queue], job.id)
            by_partition.setdefault(home, []).append(number)
            look.extend((number, partition) for partition in older)
        if look:
            found = self._calls.all([Call(GET, partition, (jobs[number].id.encode(),)) for number, partition in look])
            for (number, partition), views in zip(look, cast("list[list[list[bytes] | None]]", found), strict=True):
                view = views[0]
                if view and answers[number] is None:
                    job = jobs[number]
                    answers[number] = Enqueued(
                        job=job_of(partition, job.id.encode(), view), is_new=is_repeat(view, job)
                    )
            by_partition = {
                partition: left
                for partition, held in by_partition.items()
                if (left := [number for number in held if answers[number] is None])
            }
        return by_partition

    def _send(
        self, jobs: Sequence[NewJob], by_partition: dict[Partition, list[int]], answers: list[Enqueued | None]
    ) -> list[int]:
        """Store what can be stored; answers the numbers of the jobs whose partition is shut."""
        calls = []
        for partition, numbers in by_partition.items():
            args: list[Word] = [self._calls.now(), self._keys.channel(partition.queue)]
            for number in numbers:
                job = jobs[number]
                args += (job.id.encode(), when_of(job), body_of(job))
            calls.append(Call(ENQUEUE, partition, tuple(args)))
        shut: list[int] = []
        for (partition, numbers), answer in zip(by_partition.items(), self._calls.all(calls), strict=True):
            now, is_open, *known = cast("list[bytes | int | list[bytes]]", answer)
            if not is_open:
                shut += numbers
                continue
            views = dict(zip(known[::2], known[1::2], strict=True))
            now_us = int(cast("bytes", now))
            for place, number in enumerate(numbers):
                job = jobs[number]
                view = cast("list[bytes] | None", views.get(place))
                if view is None:
                    answers[number] = Enqueued(job=stored(job, partition, now_us), is_new=True)
                else:
                    there = job_of(partition, job.id.encode(), view)
                    answers[number] = Enqueued(job=there, is_new=is_repeat(view, job))
        return shut


def _slices(jobs: Sequence[NewJob]) -> Iterator[list[int]]:
    """Numbers of jobs that may go in one round trip: not too many, not too much, and no id twice."""
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
