"""A limit, spread over partitions: even shares first, then what is left to those that have more."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from scheduler.errors import BackendUnavailable
from scheduler_backends.redis.calls import Call, Calls, what_succeeded
from scheduler_backends.redis.keys import Partition
from scheduler_backends.redis.rosters import Roster
from scheduler_backends.redis.serving import Serving
from scheduler_backends.redis.watching import Watch

SHARE = 1_000  # jobs in one script; Lua's unpack ends near 8,000 values
LAPS = 100  # of asking partitions that have more, while the limit is not reached


class Moved(NamedTuple):
    """What one partition answered: how many it moved, and whether it has more."""

    moved: int
    more: bool


class Spreading:
    """Makes the calls of a move. Any thread."""

    def __init__(self, calls: Calls, serving: Serving, watch: Watch) -> None:
        self._calls = calls
        self._serving = serving
        self._watch = watch
        self._turn = itertools.count()  # which partitions are given one more where a limit cannot be split evenly

    def spread(
        self,
        queues: Sequence[str],
        limit: int,
        ask: Callable[[Partition, int], Call],
        take: Callable[[Call, object], Moved],
        *,
        choose: Callable[[Roster, Sequence[Partition]], Sequence[Partition]],
        also: Callable[[], Sequence[Call]] = tuple,
    ) -> int:
        """
        At most *limit* moves over the chosen partitions: even shares first, then what is left to those that have more.

        *choose*: those to be asked among all. *also*: further calls of the first round, which move nothing. `take` is
        given errors too; they are logged, and the first is raised where all failed.
        """
        left = limit
        busy: list[Partition] = []

        def share_out(partitions: Sequence[Partition]) -> list[Call]:
            if not partitions:
                return []
            each, rest = divmod(left, len(partitions))
            turn = next(self._turn)
            return [
                ask(partition, min(each + ((place - turn) % len(partitions) < rest), SHARE))
                for place, partition in enumerate(partitions)
            ]

        asked: list[Roster] = []

        def first_calls(roster: Roster, partitions: Sequence[Partition]) -> list[Call]:
            asked.append(roster)
            if len(asked) > 1:  # these are new: nothing is known of them
                return share_out(partitions)
            return [*share_out(choose(roster, partitions)), *also()]

        answers = self._serving.sweep(queues, first_calls)
        for _ in range(LAPS):
            busy = []
            for call, answer in answers:
                if isinstance(answer, BackendUnavailable):
                    self._watch.doubt()
                moved, more = take(call, answer)
                left -= moved
                if more:
                    busy.append(call.partition)
            if answers:
                what_succeeded([answer for _, answer in answers])
            if left <= 0 or not busy:
                break
            busy = busy[:left]  # each is asked for one at least
            calls = share_out(busy)
            answers = list(zip(calls, self._calls.run(calls), strict=True))
        return limit - left
