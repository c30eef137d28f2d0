"""What an operator does: cancel and requeue jobs by id, pause and resume a queue, purge it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from scheduler.leases import MoveAnswer
from scheduler.queues import Retention
from scheduler.states import JobState
from scheduler_backends.redis.calls import Call, Calls
from scheduler_backends.redis.keys import Keys, Partition
from scheduler_backends.redis.layout import Layout
from scheduler_backends.redis.layouts import ROUNDS, Layouts
from scheduler_backends.redis.nodes import Word
from scheduler_backends.redis.scripts import CANCEL, PAUSE, PURGE, REQUEUE, TOPOLOGY_PAUSE, Script

SLICE = 1_000  # jobs in one script; Lua's unpack ends near 8,000 values


class Operating:
    """Carries out an operator's orders. Any thread."""

    def __init__(self, calls: Calls, layouts: Layouts, keys: Keys, retention: Retention) -> None:
        self._calls = calls
        self._layouts = layouts
        self._keys = keys
        self._retention = retention

    def purge(self, queue: str, state: JobState, limit: int) -> int:
        """As `Backend.purge`."""
        gone = 0
        for partition in self._layouts.of(queue, fresh=True).partitions:
            while gone < limit:
                share = min(limit - gone, SLICE)
                went, more = cast("tuple[int, int]", self._calls.one(PURGE, partition, state.encode(), share))
                gone += went
                if not more:
                    break
        return gone

    def cancel(self, queue: str, ids: Sequence[str]) -> list[MoveAnswer]:
        """As `Backend.cancel`; the ids are such as jobs can have."""
        kept = int(self._retention.cancelled > 0)
        return self._by_id(queue, ids, CANCEL, lambda _: (self._calls.now(), kept), JobState.CANCELLED)

    def requeue(self, queue: str, ids: Sequence[str]) -> list[MoveAnswer]:
        """As `Backend.requeue`; the ids are such as jobs can have."""
        return self._by_id(
            queue,
            ids,
            REQUEUE,
            lambda partition: (self._calls.now(), self._keys.channel(partition.queue)),
            JobState.READY,
        )

    def pause(self, queue: str, *, paused: bool) -> None:
        """
        As `Backend.pause` and `resume`.

        The queue is written first and its partitions after it. Whoever opens a further partition copies what the queue
        says; versions that came meanwhile are seen by reading once more.
        """
        self._layouts.create(queue)
        fields = self._calls.on_key(TOPOLOGY_PAUSE, self._keys.topology(queue), int(paused))
        layout = self._layouts.noted(queue, fields)
        done: set[Partition] = set()
        for _ in range(ROUNDS):
            todo = [partition for partition in layout.partitions if partition not in done]
            if not todo:
                return
            self._calls.all([Call(PAUSE, partition, (layout.pause, self._keys.channel(queue))) for partition in todo])
            done.update(todo)
            layout = self._layouts.of(queue, fresh=True)

    def _by_id(
        self,
        queue: str,
        ids: Sequence[str],
        script: Script,
        head: Callable[[Partition], tuple[Word, ...]],
        target: JobState,
    ) -> list[MoveAnswer]:
        """A move of jobs that are named: each is looked for in every version, the active one first."""
        answers = [MoveAnswer(id=one, moved=False, state=None) for one in ids]
        layout = self._layouts.of(queue)
        missing = list(range(len(ids)))
        for fresh in (False, True):
            if fresh:
                known, layout = layout, self._layouts.of(queue, fresh=True)
                if layout.epoch == known.epoch:
                    break
            missing = self._ask_homes(layout, answers, missing, script, head, target)
            if not missing:
                break
        return answers

    def _ask_homes(  # noqa: PLR0917 - one caller, just above
        self,
        layout: Layout,
        answers: list[MoveAnswer],
        missing: list[int],
        script: Script,
        head: Callable[[Partition], tuple[Word, ...]],
        target: JobState,
    ) -> list[int]:
        if not layout.exists:
            return missing
        homes = {number: layout.homes(answers[number].id) for number in missing}
        for version in range(len(layout.topology.versions)):
            by_partition: dict[Partition, list[int]] = {}
            for number in missing:
                by_partition.setdefault(homes[number][version], []).append(number)
            batches = [
                (partition, numbers[start : start + SLICE])
                for partition, numbers in by_partition.items()
                for start in range(0, len(numbers), SLICE)
            ]
            calls = [
                Call(script, partition, (*head(partition), *(answers[number].id.encode() for number in numbers)))
                for partition, numbers in batches
            ]
            missing = []
            for (_, numbers), answer in zip(batches, self._calls.all(calls) if calls else (), strict=True):
                for number, word in zip(numbers, cast("list[bytes]", answer), strict=True):
                    if word == b"":
                        missing.append(number)
                    else:
                        moved = word == b"!"
                        state = target if moved else JobState(word.decode())
                        answers[number] = MoveAnswer(id=answers[number].id, moved=moved, state=state)
            if not missing:
                break
        return missing
