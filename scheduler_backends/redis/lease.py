"""Lease and renew. A lease call asks partitions in rotation for shares, then asks those that have more again."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import cast

from scheduler.errors import BackendError, BackendUnavailable
from scheduler.leases import Lease
from scheduler_backends.redis.calls import Call
from scheduler_backends.redis.codec import leases_of
from scheduler_backends.redis.errors import log, should_log
from scheduler_backends.redis.keys import Partition
from scheduler_backends.redis.quarantine import quarantine_jobs
from scheduler_backends.redis.scripts import LEASE, MARK, RENEW, SLICE
from scheduler_backends.redis.settle import call_on_leases
from scheduler_backends.redis.store import Store
from scheduler_backends.redis.tokens import is_first_use

WORTH_A_SCRIPT = 32  # jobs: for a smaller share, the script call costs more than its jobs
WORTH_A_QUEUE = 8  # jobs: the same limit in further rounds while queues are served in rotation
QUEUES = 8  # with ready jobs: more are served in rotation, since small shares mean more script calls per job
MARKED_AHEAD = 64  # partitions: marking many in one call costs little more than marking one
READY_CHECKS = 2  # partitions checked in rotation without a hint, since notifications may have been lost
READY_CHECK_EVERY = 4  # calls: these checks are made in each fourth, and whenever there are no hints

_Answer = tuple[int, bytes, int, list[bytes], list[bytes], list[bytes], list[bytes]]  # of lease.lua


class LeaseHooks:
    """Hooks of `Backend.lease` and `Backend.renew`."""

    _store: Store

    def _lease(
        self, queues: Sequence[str], *, token: str, worker_id: str, duration: float, limit: int
    ) -> Sequence[Lease]:
        """Lease up to *limit* jobs, at most 1,000 per partition."""
        call = _LeaseCall(self._store, queues, token=token, worker_id=worker_id, duration=duration, limit=limit)
        return call.run()

    def _renew(self, leases: Sequence[Lease], duration: float) -> Sequence[Lease]:
        return call_on_leases(
            self._store,
            RENEW,
            leases,
            lambda group, held: (group, len(held), *[lease.job.id.encode() for lease in held]),
            second=math.ceil(duration * 1000),
        )


class _LeaseCall:
    """State of one lease call. It is used once."""

    def __init__(
        self, store: Store, queues: Sequence[str], *, token: str, worker_id: str, duration: float, limit: int
    ) -> None:
        self._store = store
        self._serving = store.serving
        self._served = self._serving.of(queues)
        self._marks = store.marks
        self._relies_on_hints = self._serving.relies_on_notifications(self._served)
        self._token = token
        self._group = bytes.fromhex(token)
        self._worker_id = worker_id
        self._milliseconds = math.ceil(duration * 1000)
        self._limit = limit
        self._is_repeat = not is_first_use(token)
        self._leases: list[Lease] = []
        self._given: dict[Partition, int] = {}  # by asked partition: jobs leased under this token, also before
        self._more: dict[Partition, int] = {}  # by asked partition: whether it has more; another call may use its hint
        self._in_turns = False  # more queues have ready jobs than one call asks
        self._error: BackendError | None = None  # the last error of a partition
        self._answered = False  # whether any partition has replied
        self._reply_lost = False  # a partition may have given jobs, but its reply was lost

    def run(self) -> list[Lease]:
        """
        Make the call and return the leases.

        Raises the last error only if nothing was leased, and if a partition was unavailable or none has replied.
        """
        self._take(self._serving.sweep(self._served, self._first_calls, self._calls_for_new))
        is_last = False
        while not is_last and (calls := self._further_calls()):
            # An empty result must mean that no job is ready, so partitions are asked until that is certain. The loop
            # ends: a partition is asked again only while it has more, and then gives jobs or quarantines damaged ones.
            is_last = bool(self._leases)
            self._take(zip(calls, self._store.calls.run(calls), strict=True))
        is_away = isinstance(self._error, BackendUnavailable)
        if self._error is not None and not self._leases and (is_away or not self._answered):
            raise self._error
        return self._leases

    def _calls_for_new(self, partitions: Sequence[Partition]) -> list[Call]:
        # A repeat leases nothing at first: before jobs are added, all jobs held under the token must be known.
        return self._calls_for(dict.fromkeys(partitions, 0)) if self._is_repeat else _ready_checks(partitions)

    def _first_calls(self) -> list[Call]:
        """Return calls that lease from hinted partitions. If there are no hints, check those not known to be empty."""
        served = self._served
        if self._is_repeat:
            return self._calls_for_new(served.partitions)
        if len(served.partitions) == 1:  # a check would only add a round trip
            return self._calls_for({served.partitions[0]: min(self._limit, SLICE)})
        shares = self._shares(WORTH_A_SCRIPT)
        seen: Iterable[Partition] = ()
        if not shares or next(self._store.turns) % READY_CHECK_EVERY == 0:
            seen = [one for one in served.in_turn("check", READY_CHECKS) if not served.is_hinted(one)]
        if not shares:
            seen = dict.fromkeys((*self._not_asked(), *seen))
        return self._calls_for({one: share for one, share in shares.items() if share}) + _ready_checks(seen)

    def _further_calls(self) -> list[Call]:
        remaining = self._limit - len(self._leases)
        if self._reply_lost or remaining <= 0:
            return []  # jobs of a lost reply must be found by a repeat before more are added
        if self._in_turns and remaining < min(self._served.worth, len(self._leases)):
            return []  # not worth a call: the next lease call asks for more at once
        shares = self._shares(WORTH_A_QUEUE if self._in_turns else 1)
        if self._leases:
            return self._calls_for({one: share for one, share in shares.items() if share})
        # Also those with a share of 0: the script reports whether they have more, and reports no if they are paused.
        return self._calls_for(shares) + _ready_checks(one for one in self._not_asked() if one not in shares)

    def _not_asked(self) -> list[Partition]:
        """Return the partitions that must be asked before the result may be empty."""
        unknown = list(self._served.unchecked) if self._relies_on_hints else self._served.partitions
        return [one for one in unknown if one not in self._more]

    def _shares(self, worth: int) -> dict[Partition, int]:
        """Return how many jobs to ask of which partition: split evenly over queues with jobs, or some of them."""
        remaining = self._limit - len(self._leases)
        few = max(1, int(remaining / self._served.worth))
        if self._given and not self._leases:  # the hints were wrong: ask more queues at once
            few = max(few, QUEUES)
        most = max(QUEUES, remaining // WORTH_A_QUEUE)
        groups = self._served.next_ready(most + 1)
        self._in_turns = len(groups) > most
        if self._in_turns:
            groups = groups[:few]
        elif not groups:
            groups = [[one for one, more in self._more.items() if more]]
        shares: dict[Partition, int] = {}
        for of_queue, mine in zip(_split(remaining, len(groups)), groups, strict=True):
            chosen = mine[: max(1, of_queue // worth)] if worth > 1 else mine
            for one, share in zip(chosen, _split(of_queue, len(chosen)), strict=True):
                shares[one] = min(share, SLICE - self._given.get(one, 0))
        return shares

    def _calls_for(self, shares: dict[Partition, int]) -> list[Call]:
        """Return lease calls for *shares*, preceded by the call that marks their partitions."""
        for partition in shares:
            self._served.asked_for_jobs(partition)
        some = [partition for partition, share in shares.items() if share]
        calls = self._marks.before(some, self._ahead, self._milliseconds) if some else []
        now, worker = self._store.calls.now(), self._worker_id.encode()
        for partition, share in shares.items():
            # A partition that was asked before has returned the jobs held under this token: it only adds to them.
            again = int(partition in self._given)
            calls.append(Call(LEASE, partition, (now, share, self._milliseconds, self._group, worker, again)))
        return calls

    def _ahead(self) -> list[Partition]:
        """Return partitions that the next lease calls will ask."""
        return [mine[0] for mine in self._served.next_ready(MARKED_AHEAD)] if self._in_turns else []

    def _take(self, answers: Iterable[tuple[Call, object]]) -> None:
        """Handle the answers. Never raises: an error of one partition must not discard the jobs of the others."""
        for call, answer in answers:
            partition = call.partition
            if call.script is MARK:
                self._marks.take(call, answer)
                continue
            if isinstance(answer, BackendError):
                self._more[partition] = 0
                self._note_error(call, answer)
                continue
            self._answered = True
            more = self._take_jobs(call, cast("_Answer", answer)) if call.script is LEASE else cast("int", answer)
            self._more[partition] = more
            self._served.note_answer(partition, more=more > 0)

    def _take_jobs(self, call: Call, answer: _Answer) -> int:
        """Add the jobs in the answer of a partition. Returns whether it has more."""
        more, expires, _, ids, records, histories, lost = answer
        partition = call.partition
        if lost:
            log.warning(
                "%r: dropped %d list entries without a ready job, the first is %r", partition, len(lost), lost[0]
            )
        leases: Sequence[Lease] = ()
        if ids:
            self._marks.taken(partition, len(ids))
            leases, damaged = leases_of(partition, ids, records, histories, self._worker_id, self._token, expires)
            if damaged:  # the next round leases others in their place
                self._error = quarantine_jobs(self._store, partition, self._group, damaged) or self._error
            self._leases += leases
        self._given[partition] = self._given.get(partition, 0) + len(leases)
        if self._in_turns:
            self._served.adapt_worth(len(leases), cast("int", call.args[1]))
        return more

    def _note_error(self, call: Call, error: BackendError) -> None:
        self._error = error
        if isinstance(error, BackendUnavailable):
            self._reply_lost |= call.script is LEASE and call.args[1] != 0
            self._serving.note_outage()
        if call.script is LEASE:
            self._marks.note_lost_reply(call.partition)
        self._served.unchecked.add(call.partition)
        if should_log(str(error)):
            log.warning("%r: no jobs could be leased: %s", call.partition, error)


def _split(number: int, parts: int) -> list[int]:
    """Split *number* into *parts* even shares. The first shares are one larger if there is a remainder."""
    each, rest = divmod(number, parts) if parts else (0, 0)
    return [each + (place < rest) for place in range(parts)]


def _ready_checks(partitions: Iterable[Partition]) -> list[Call]:
    """Return commands that check for ready jobs. They cost a fraction of a script call that finds none."""
    return [Call(None, partition, partition.has_ready()) for partition in partitions]
