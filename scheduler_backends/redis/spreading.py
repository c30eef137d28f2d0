"""A limit, spread over partitions: even shares first, then what is left to those that have more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from scheduler.errors import BackendUnavailable
from scheduler_backends.redis.calls import Call, what_succeeded
from scheduler_backends.redis.keys import Partition
from scheduler_backends.redis.rosters import Roster
from scheduler_backends.redis.scripts import SLICE
from scheduler_backends.redis.store import Store

LAPS = 100  # of asking partitions that have more, while the limit is not reached


class Moved(NamedTuple):
    """What one partition answered: how many it moved, and whether it has more."""

    moved: int
    more: bool


def spread(
    store: Store,
    queues: Sequence[str],
    limit: int,
    ask: Callable[[Partition, int], Call],
    take: Callable[[Call, object], Moved],
    *,
    choose: Callable[[Roster, Sequence[Partition]], Sequence[Partition]],
    also: Callable[[], Sequence[Call]] = tuple,
) -> int:
    """
    Make at most *limit* moves over some partitions of *queues*, and return how many were made.

    Args:
        store: Its calls are used.
        queues: Those that are served.
        limit: Even shares of it are asked first, then what is left of those that have more.
        ask: The call that asks a partition for so many moves.
        take: Reads the answer of a call. Errors come here too; they are logged.
        choose: The partitions to be asked, among all of a roster.
        also: Further calls of the first round, which move nothing.

    Raises:
        BackendError: the first error, where all calls of a round failed.
    """
    left = limit
    busy: list[Partition] = []

    def share_out(partitions: Sequence[Partition]) -> list[Call]:
        if not partitions:
            return []
        each, rest = divmod(left, len(partitions))
        turn = next(store.turns)
        return [
            ask(partition, min(each + ((place - turn) % len(partitions) < rest), SLICE))
            for place, partition in enumerate(partitions)
        ]

    asked: list[Roster] = []

    def first_calls(roster: Roster, partitions: Sequence[Partition]) -> list[Call]:
        asked.append(roster)
        if len(asked) > 1:  # these are new: nothing is known of them
            return share_out(partitions)
        return [*share_out(choose(roster, partitions)), *also()]

    answers = store.serving.sweep(queues, first_calls)
    for _ in range(LAPS):
        busy = []
        for call, answer in answers:
            if isinstance(answer, BackendUnavailable):
                store.watch.doubt()
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
        answers = list(zip(calls, store.calls.run(calls), strict=True))
    return limit - left
