"""Lease: how many from which partition, and a repeat that takes no more than was asked for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from scheduler.leases import Lease
from scheduler_backends.redis.calls import Call, Calls, what_succeeded
from scheduler_backends.redis.codec import leases_of
from scheduler_backends.redis.errors import log
from scheduler_backends.redis.keys import Partition
from scheduler_backends.redis.layouts import Layouts
from scheduler_backends.redis.scripts import LEASE, SET_ASIDE
from scheduler_backends.redis.settling import Settling

SHARE = 1_000  # jobs of a lease call in one partition; Lua's unpack ends near 8,000 values
ROUNDS = 3  # of asking those partitions again that have more


class Leasing:
    """Leases jobs. Any thread."""

    def __init__(self, calls: Calls, layouts: Layouts, settling: Settling) -> None:
        self._calls = calls
        self._layouts = layouts
        self._settling = settling
        # A hint and nothing else: the partitions that had more when last asked. They are given the larger shares.
        self._busy: set[Partition] = set()

    def lease(self, queues: Sequence[str], token: str, worker_id: str, duration: float, limit: int) -> list[Lease]:
        """As `Backend.lease`, its arguments checked."""
        call = _LeaseCall(self._calls, self._busy, token, worker_id, duration, limit)
        call.take(self._layouts.sweep(queues, call.first_round))
        for _ in range(ROUNDS):
            partitions = call.worth_asking_again()
            if not partitions:
                break
            calls = call.further_round(partitions)
            call.take(list(zip((one.partition for one in calls), self._calls.run(calls), strict=True)))
        if call.surplus:
            # A repeat, whose first try had asked the partitions for other shares: what is too much goes back.
            self._settling.release(call.surplus)
        return call.leases


class _LeaseCall:
    """One lease call on its way through the partitions."""

    def __init__(  # noqa: PLR0917 - one caller, just above
        self, calls: Calls, busy: set[Partition], token: str, worker_id: str, duration: float, limit: int
    ) -> None:
        self.leases: list[Lease] = []
        self.surplus: list[Lease] = []
        self._calls = calls
        self._busy = busy
        self._token = token
        self._group = bytes.fromhex(token)
        self._worker_id = worker_id
        self._duration = math.ceil(duration * 1000)
        self._limit = limit
        self._given: dict[Partition, int] = {}
        self._more: list[Partition] = []  # those that have more, of the last round

    def first_round(self, partitions: Sequence[Partition]) -> list[Call]:
        """Every partition is asked, be it only for what it holds under the token."""
        chosen = [partition for partition in partitions if partition in self._busy] or partitions
        shares = self._shares(chosen)
        return [self._call(partition, shares.get(partition, 0), again=0) for partition in partitions]

    def further_round(self, partitions: Sequence[Partition]) -> list[Call]:
        """Those that have more, for what is still wanted."""
        return [self._call(partition, share, again=1) for partition, share in self._shares(partitions).items() if share]

    def worth_asking_again(self) -> list[Partition]:
        """The partitions that have more, while more is wanted."""
        if len(self.leases) >= self._limit:
            return []
        return [partition for partition in self._more if self._given.get(partition, 0) < SHARE]

    def take(self, answers: Sequence[tuple[Partition, object]]) -> None:
        """Note what the partitions gave."""
        self._more = []
        held: list[Lease] = []
        new: list[Lease] = []
        if not answers:
            return
        usable = (
            what_succeeded([answer for _, answer in answers])
            if not self.leases
            else [None if isinstance(answer, Exception) else answer for _, answer in answers]
        )
        for (partition, _), answer in zip(answers, usable, strict=True):
            if answer is None:
                continue
            more, expires, before, pairs, histories, lost = cast(
                "tuple[int, bytes, int, list[bytes], list[bytes], list[bytes]]", answer
            )
            if more:
                self._busy.add(partition)
                self._more.append(partition)
            else:
                self._busy.discard(partition)
            for raw, reason in zip(lost[::2], lost[1::2], strict=True):
                log.warning("%r: set aside %r, which %s", partition, raw, reason.decode())
            if pairs:
                self._given[partition] = self._given.get(partition, 0) + len(pairs) // 2
                leases, damaged = leases_of(
                    partition, pairs, histories, self._worker_id, self._token, int(float(expires)) * 1000
                )
                if damaged:
                    self._set_aside(partition, damaged)
                    before = min(before, len(leases))
                held += leases[:before]
                new += leases[before:]
        room = max(self._limit - len(self.leases) - len(held), 0)
        self.leases += held + new[:room]
        self.surplus += new[room:]

    def _shares(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """
        The wanted number spread evenly over the queues, and in each over its partitions.

        Whose turn it is to have one more follows from the token, of which each call has the next.
        """
        queues: dict[str, list[Partition]] = {}
        for partition in partitions:
            queues.setdefault(partition.queue, []).append(partition)
        turn = int(self._token[-8:], 16)
        shares: dict[Partition, int] = {}
        wanted = self._limit - len(self.leases)
        for of_queue, mine in zip(_split(wanted, len(queues), turn), queues.values(), strict=True):
            for share, partition in zip(_split(of_queue, len(mine), turn // len(queues)), mine, strict=True):
                shares[partition] = min(share, SHARE - self._given.get(partition, 0))
        return shares

    def _call(self, partition: Partition, share: int, *, again: int) -> Call:
        args = (self._calls.now(), share, self._duration, self._group, self._worker_id.encode(), again)
        return Call(LEASE, partition, args)

    def _set_aside(self, partition: Partition, damaged: Sequence[tuple[bytes, str]]) -> None:
        words = [word for raw, reason in damaged for word in (raw, reason.encode())]
        self._calls.one(SET_ASIDE, partition, self._group, *words)
        for raw, reason in damaged:
            log.warning("%r: set aside %r: %s", partition, raw, reason)


def _split(number: int, parts: int, turn: int) -> list[int]:
    """*number* in even parts; those whose turn it is have one more."""
    each, rest = divmod(number, parts)
    return [each + ((place - turn) % parts < rest) for place in range(parts)]
