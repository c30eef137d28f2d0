"""Lease: how many from which partition, and a repeat that takes no more than was asked for."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import cast

from scheduler.errors import BackendError, BackendUnavailable
from scheduler.leases import Lease
from scheduler_backends.redis.aside import Aside
from scheduler_backends.redis.calls import Call, Calls
from scheduler_backends.redis.codec import leases_of
from scheduler_backends.redis.errors import is_news, log
from scheduler_backends.redis.keys import Partition
from scheduler_backends.redis.layouts import Layouts
from scheduler_backends.redis.scripts import LEASE
from scheduler_backends.redis.settling import Settling
from scheduler_backends.redis.tokens import is_first_use

SHARE = 1_000  # jobs of a lease call in one partition; Lua's unpack ends near 8,000 values
WORTH_A_SCRIPT = 32  # jobs: below that, asking one partition more costs more than its jobs do
GLANCES = 8  # partitions looked at beside those that are asked, in turn, since news of them may have been lost,
EVERY = 4  # in each of so many calls
ROUNDS = 4  # of asking on, while partitions have more and more is wanted

_Answer = tuple[int, bytes, int, list[bytes], list[bytes], list[bytes], list[bytes]]  # of lease.lua


class Leasing:
    """Leases jobs. Any thread."""

    def __init__(self, calls: Calls, layouts: Layouts, settling: Settling, aside: Aside) -> None:
        self._calls = calls
        self._layouts = layouts
        self._settling = settling
        self._aside = aside
        # Hints and nothing else: the partitions that had more when last looked at, or of which a message said so. A
        # set's own operations are atomic.
        self._hinted: set[Partition] = set()
        self._turns = itertools.count()

    def expect(self, partition: Partition) -> None:
        """Take the hint that *partition* has ready jobs."""
        self._hinted.add(partition)

    def lease(self, queues: Sequence[str], token: str, worker_id: str, duration: float, limit: int) -> list[Lease]:
        """As `Backend.lease`, its arguments checked."""
        looks = not is_first_use(token)
        call = _LeaseCall(
            self._calls, self._aside, self._hinted, next(self._turns), token, worker_id, duration, limit, looks=looks
        )
        call.take(self._layouts.sweep(queues, call.first_round))
        rounds = 0
        # An empty answer must mean that nothing is there: asked on until that is certain. It ends, since a partition is
        # asked again only while it says that it has more, and then gives some, or sets aside what is damaged.
        while (rounds < ROUNDS or not call.leases) and (calls := call.further_round()):
            call.take(list(zip(calls, self._calls.run(calls), strict=True)))
            rounds += 1
        if not call.leases and call.failure is not None:
            raise call.failure
        if call.surplus:
            # The layout has changed in between, or a repeat was not known for one.
            self._settling.release(call.surplus)
        return call.leases


class _LeaseCall:
    """One lease call on its way through the partitions."""

    def __init__(  # noqa: PLR0917 - one caller, just above
        self,
        calls: Calls,
        aside: Aside,
        hinted: set[Partition],
        turn: int,
        token: str,
        worker_id: str,
        duration: float,
        limit: int,
        *,
        looks: bool,
    ) -> None:
        self._calls = calls
        self._aside = aside
        self._hinted = hinted
        self._turn = turn
        self._token = token
        self._group = bytes.fromhex(token)
        self._worker_id = worker_id
        self._milliseconds = math.ceil(duration * 1000)
        self._limit = limit
        self._looks = looks  # the first round takes nothing: before more is added, all that is held must be known
        self._held: list[Lease] = []  # from an earlier try of this call
        self._new: list[Lease] = []
        self._given: dict[Partition, int] = {}  # by those that were asked for jobs
        self._more: list[Partition] = []  # to be asked in the next round: they have more, or had when last looked at
        self._unseen: list[Partition] = []  # to be looked at before the answer may be empty
        self._answered = False
        self._error: BackendError | None = None  # of a partition that could not be asked, the last
        self._in_doubt = False  # a partition may have given jobs, and its answer is lost

    @property
    def failure(self) -> BackendError | None:
        """Why an empty answer would not mean that nothing is there."""
        away = isinstance(self._error, BackendUnavailable)
        return self._error if away or not self._answered else None

    @property
    def leases(self) -> list[Lease]:
        """What the call answers."""
        return self._held + self._new[: self._room(self._held)]

    @property
    def surplus(self) -> list[Lease]:
        """What was leased and is more than was asked for."""
        return self._new[self._room(self._held) :]

    def first_round(self, partitions: Sequence[Partition]) -> list[Call]:
        """Shares for some partitions that are said to have jobs; where none is, a look at all, and else at some."""
        if self._looks:
            return [self._call(partition, 0) for partition in partitions]
        if len(partitions) == 1:  # a glance would only come before
            return [self._call(partitions[0], min(self._limit, SHARE))]
        hinted = self._hinted.intersection(partitions)  # once: another thread may add to it
        if not hinted:
            return list(map(_glance, partitions))
        if len(hinted) == 1:  # as in an idle worker that was woken
            shares = dict.fromkeys(hinted, min(self._limit, SHARE))
        else:
            shares = self._shares([one for one in partitions if one in hinted], WORTH_A_SCRIPT)
            self._more += [one for one in partitions if one in hinted and not shares.get(one)]
        others = [one for one in partitions if one not in hinted]
        turn, rest = divmod(self._turn, EVERY)
        first = turn * GLANCES % max(len(others), 1)
        others = others[first:] + others[:first]
        seen = GLANCES if rest == 0 else 0
        self._unseen += others[seen:]
        return [self._call(one, share) for one, share in shares.items() if share] + list(map(_glance, others[:seen]))

    def further_round(self) -> list[Call]:
        """Who is still to be asked while more is wanted."""
        if self._in_doubt or self._room(self._held, self._new) == 0:
            return []  # what is in doubt is for a repeat to find, before anything is added
        more = [one for one in dict.fromkeys(self._more) if self._given.get(one, 0) < SHARE]
        shares = self._shares(more, 1)
        if self._held or self._new:
            return [self._call(one, share) for one, share in shares.items() if share]  # a short answer will do
        # Also those that get no share: what they answer is exact, and 0 where they are paused.
        return [self._call(one, share) for one, share in shares.items()] + list(map(_glance, self._unseen))

    def take(self, answers: Sequence[tuple[Call, object]]) -> None:
        """
        Note what the partitions gave.

        Never raises: jobs that some have given must not be lost to an error of another.
        """
        asked = {call.partition for call, _ in answers}
        self._more = [partition for partition in self._more if partition not in asked]
        self._unseen = [partition for partition in self._unseen if partition not in asked]
        for call, answer in answers:
            if isinstance(answer, BackendError):
                self._error = answer
                self._hinted.discard(call.partition)
                takes = call.script is LEASE and call.args[1] != 0
                self._in_doubt |= takes and isinstance(answer, BackendUnavailable)
                if is_news(str(answer)):
                    log.warning("%r could not be asked for jobs: %s", call.partition, answer)
                continue
            self._answered = True
            if call.script is LEASE:
                self._take_jobs(call.partition, cast("_Answer", answer))
            else:
                self._note_more(call.partition, more=cast("int", answer))

    def _take_jobs(self, partition: Partition, answer: _Answer) -> None:
        more, expires, before, ids, records, histories, lost = answer
        self._note_more(partition, more=more)
        if lost:
            log.warning(
                "%r: %d entries name no job that is ready, %r the first; dropped", partition, len(lost), lost[0]
            )
        given = len(ids)
        if ids:
            leases, damaged = leases_of(
                partition, ids, records, histories, self._worker_id, self._token, int(float(expires)) * 1000
            )
            if damaged:
                unreadable = {raw for raw, _, _ in damaged}
                before -= len(unreadable.intersection(ids[:before]))
                given = len(leases)  # the others are asked for again
                self._error = self._aside.set(partition, self._group, damaged) or self._error
            self._held += leases[:before]
            self._new += leases[before:]
        self._given[partition] = self._given.get(partition, 0) + given

    def _note_more(self, partition: Partition, *, more: int) -> None:
        if more:
            self._hinted.add(partition)
            self._more.append(partition)
        else:
            self._hinted.discard(partition)

    def _room(self, *taken: Sequence[Lease]) -> int:
        return max(self._limit - sum(map(len, taken)), 0)

    def _shares(self, partitions: Sequence[Partition], worth: int) -> dict[Partition, int]:
        """
        What is wanted, spread evenly over the queues, and in each over so few partitions that each gives *worth* jobs.

        Each call has the next turn.
        """
        queues: dict[str, list[Partition]] = {}
        for partition in partitions:
            queues.setdefault(partition.queue, []).append(partition)
        turn = self._turn
        shares: dict[Partition, int] = {}
        wanted = self._room(self._held, self._new)
        for of_queue, mine in zip(_split(wanted, len(queues), turn), queues.values(), strict=True):
            count = min(len(mine), max(1, of_queue // worth)) if worth > 1 else len(mine)
            first = turn // len(queues) * count
            chosen = [mine[(first + place) % len(mine)] for place in range(count)]
            for share, partition in zip(_split(of_queue, count, turn // len(queues)), chosen, strict=True):
                shares[partition] = min(share, SHARE - self._given.get(partition, 0))
        return shares

    def _call(self, partition: Partition, share: int) -> Call:
        # One that was asked before has said what it holds for a repeat of this call, and is only to add to it.
        again = int(partition in self._given)
        args = (self._calls.now(), share, self._milliseconds, self._group, self._worker_id.encode(), again)
        return Call(LEASE, partition, args)


def _glance(partition: Partition) -> Call:
    """Asks a partition whether it has ready jobs, at a fraction of what a script costs that finds none."""
    return Call(None, partition, partition.has_ready)


def _split(number: int, parts: int, turn: int) -> list[int]:
    """*number* in even parts; those whose turn it is have one more."""
    if parts == 0:
        return []
    each, rest = divmod(number, parts)
    return [each + ((place - turn) % parts < rest) for place in range(parts)]
