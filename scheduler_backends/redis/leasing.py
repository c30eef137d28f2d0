"""Lease: how many from which partition, and a repeat that takes no more than was asked for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from scheduler.errors import BackendUnavailable
from scheduler.identity import is_own_token
from scheduler.leases import Lease
from scheduler_backends.redis.calls import Call, Calls, what_succeeded
from scheduler_backends.redis.codec import leases_of
from scheduler_backends.redis.errors import log
from scheduler_backends.redis.keys import Partition
from scheduler_backends.redis.layouts import Layouts
from scheduler_backends.redis.scripts import LEASE, SET_ASIDE
from scheduler_backends.redis.settling import Settling

SHARE = 1_000  # jobs of a lease call in one partition; Lua's unpack ends near 8,000 values
WORTH_A_SCRIPT = 32  # jobs: below that, asking one partition more costs more than its jobs do
REMEMBERED = 1_000  # tokens
GLANCES = 8  # partitions looked at beside those that are asked, in turn, since news of them may have been lost,
EVERY = 4  # in each of so many calls
ROUNDS = 4  # of asking on, while partitions have more and more is wanted


class _UsedTokens:
    """Tokens of late, so that a repeat is known for one. A set's own operations are atomic."""

    def __init__(self) -> None:
        # Two generations, the older of which is dropped.
        self._new: set[str] = set()
        self._older: set[str] = set()

    def before(self, token: str) -> bool:
        """Whether a lease call with *token* may have been made before, here or elsewhere; it is made now."""
        if token in self._new or token in self._older:
            return True
        if len(self._new) >= REMEMBERED:
            self._older, self._new = self._new, set()
        self._new.add(token)
        return not is_own_token(token)


_used = _UsedTokens()  # of this process, since a call may be repeated by another backend object

_Answer = tuple[int, bytes, int, list[bytes], list[bytes], list[bytes], list[bytes]]  # of lease.lua


class Leasing:
    """Leases jobs. Any thread."""

    def __init__(self, calls: Calls, layouts: Layouts, settling: Settling) -> None:
        self._calls = calls
        self._layouts = layouts
        self._settling = settling
        # A hint and nothing else: the partitions that had more when last looked at. A set's own operations are atomic.
        self._busy: set[Partition] = set()

    def expect(self, partition: Partition) -> None:
        """Take the hint that *partition* has ready jobs."""
        self._busy.add(partition)

    def lease(self, queues: Sequence[str], token: str, worker_id: str, duration: float, limit: int) -> list[Lease]:
        """As `Backend.lease`, its arguments checked."""
        call = _LeaseCall(self._calls, self._busy, token, worker_id, duration, limit)
        if _used.before(token):
            call.only_look()
        call.take(self._layouts.sweep(queues, call.first_round))
        rounds = 0
        while rounds < ROUNDS and (calls := call.further_round()):
            # A round that met damage does not count: an empty answer must mean that nothing else is there.
            rounds += not call.take(list(zip(calls, self._calls.run(calls), strict=True)))
        if not call.leases and call.unavailable is not None:
            raise call.unavailable  # an empty answer would say that nothing is there
        if call.surplus:
            # A repeat after all, of a token that was forgotten here, and the first try had asked other partitions.
            self._settling.release(call.surplus)
        return call.leases


class _LeaseCall:
    """One lease call on its way through the partitions."""

    def __init__(  # noqa: PLR0917 - one caller, just above
        self, calls: Calls, busy: set[Partition], token: str, worker_id: str, duration: float, limit: int
    ) -> None:
        self._calls = calls
        self._busy = busy
        self._token = token
        self._group = bytes.fromhex(token)
        self._worker_id = worker_id
        self._milliseconds = math.ceil(duration * 1000)
        self._limit = limit
        self._turn = int(token[-8:], 16)  # each call has the next
        self._held: list[Lease] = []  # from an earlier try of this call
        self._new: list[Lease] = []
        self._given: dict[Partition, int] = {}
        self._more: list[Partition] = []  # to be asked in the next round: they have more, or had when last looked at
        self._unseen: list[Partition] = []  # to be looked at before the answer may be empty
        self._only_looks = False
        self.unavailable: BackendUnavailable | None = None  # of a partition that could not be asked

    def only_look(self) -> None:
        """Let the first round take nothing: before more is added, all that is held must be known."""
        self._only_looks = True

    @property
    def leases(self) -> list[Lease]:
        """What the call answers."""
        return self._held + self._new[: self._room(self._held)]

    @property
    def surplus(self) -> list[Lease]:
        """What was leased and is more than was asked for."""
        return self._new[self._room(self._held) :]

    def first_round(self, partitions: Sequence[Partition]) -> list[Call]:
        """Shares for some partitions that had more when last looked at, or were heard of since; a glance at others."""
        if self._only_looks:
            return [self._call(partition, 0, again=0) for partition in partitions]
        if len(partitions) == 1:  # a glance would only come before
            return [self._call(partitions[0], min(self._limit, SHARE), again=0)]
        busy = [partition for partition in partitions if partition in self._busy]
        if not busy:
            return list(map(_glance, partitions))
        shares = self._shares(busy, WORTH_A_SCRIPT)
        self._more += [partition for partition in busy if not shares.get(partition)]
        idle = [partition for partition in partitions if partition not in self._busy]
        turn, looks = divmod(self._turn, EVERY)
        first = turn * GLANCES % max(len(idle), 1)
        idle = idle[first:] + idle[:first]
        seen = 0 if looks else GLANCES
        self._unseen += idle[seen:]
        asks = [self._call(one, share, again=0) for one, share in shares.items() if share]
        return asks + list(map(_glance, idle[:seen]))

    def further_round(self) -> list[Call]:
        """Who is still to be asked while more is wanted."""
        if self._room(self._held, self._new) == 0:
            return []
        more = [one for one in dict.fromkeys(self._more) if self._given.get(one, 0) < SHARE]
        if more:
            return [self._call(one, share, again=1) for one, share in self._shares(more, 1).items() if share]
        if self._held or self._new:
            return []  # a short answer will do
        return list(map(_glance, self._unseen))

    def take(self, answers: Sequence[tuple[Call, object]]) -> bool:
        """Note what the partitions gave; answers whether some of it was damaged, and is set aside now."""
        asked = {call.partition for call, _ in answers}
        self._more = [partition for partition in self._more if partition not in asked]
        self._unseen = [partition for partition in self._unseen if partition not in asked]
        damaged = False
        # Jobs that other partitions have given must not be lost to an error of one.
        for (call, error), answer in zip(answers, what_succeeded([one for _, one in answers]), strict=True):
            if isinstance(error, BackendUnavailable):
                self.unavailable = error
            if answer is None:
                continue
            if call.script is LEASE:
                damaged = self._take_jobs(call.partition, cast("_Answer", answer)) or damaged
            else:
                self._note_more(call.partition, more=cast("int", answer))
        return damaged

    def _take_jobs(self, partition: Partition, answer: _Answer) -> bool:
        more, expires, before, ids, records, histories, lost = answer
        self._note_more(partition, more=more)
        for raw, reason in zip(lost[::2], lost[1::2], strict=True):
            log.warning("%r: set aside %r, which %s", partition, raw, reason.decode())
        damaged: list[tuple[bytes, str]] = []
        if ids:
            self._given[partition] = self._given.get(partition, 0) + len(ids)
            leases, damaged = leases_of(
                partition, ids, records, histories, self._worker_id, self._token, int(float(expires)) * 1000
            )
            if damaged:
                self._set_aside(partition, damaged)
                before = min(before, len(leases))
            self._held += leases[:before]
            self._new += leases[before:]
        return bool(lost or damaged)

    def _note_more(self, partition: Partition, *, more: int) -> None:
        if more:
            self._busy.add(partition)
            self._more.append(partition)
        else:
            self._busy.discard(partition)

    def _room(self, *taken: Sequence[Lease]) -> int:
        return max(self._limit - sum(map(len, taken)), 0)

    def _shares(self, partitions: Sequence[Partition], worth: int) -> dict[Partition, int]:
        """
        What is wanted, spread evenly over the queues, and in each over so few partitions that each gives *worth* jobs.

        Whose turn it is follows from the token, so that a repeat asks the same.
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

    def _call(self, partition: Partition, share: int, *, again: int) -> Call:
        args = (self._calls.now(), share, self._milliseconds, self._group, self._worker_id.encode(), again)
        return Call(LEASE, partition, args)

    def _set_aside(self, partition: Partition, damaged: Sequence[tuple[bytes, str]]) -> None:
        words = [word for raw, reason in damaged for word in (raw, reason.encode())]
        self._calls.one(SET_ASIDE, partition, self._group, *words)
        for raw, reason in damaged:
            log.warning("%r: set aside %r: %s", partition, raw, reason)


def _glance(partition: Partition) -> Call:
    """Asks a partition whether it has ready jobs, at a fraction of what a script costs that finds none."""
    return Call(None, partition, partition.has_ready)


def _split(number: int, parts: int, turn: int) -> list[int]:
    """*number* in even parts; those whose turn it is have one more."""
    if parts == 0:
        return []
    each, rest = divmod(number, parts)
    return [each + ((place - turn) % parts < rest) for place in range(parts)]
