"""Leases: shares for the partitions whose turn it is, then one more round to those that had more; and renewing."""

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
from scheduler_backends.redis.quarantine import set_aside
from scheduler_backends.redis.scripts import LEASE, MARK, RENEW, SLICE
from scheduler_backends.redis.settle import call_on_leases
from scheduler_backends.redis.store import Store
from scheduler_backends.redis.tokens import is_first_use

WORTH_A_SCRIPT = 32  # jobs: below that, asking one partition more costs more than its jobs do
WORTH_A_QUEUE = 8  # jobs: the same in a further round while queues take turns
QUEUES = 8  # with ready jobs: when there are more, they take turns, since a small share leaves jobs for another script
MARKED_AHEAD = 64  # partitions: to mark many in one call costs little more than to mark one
GLANCES = 2  # partitions looked at beside those that are asked, in turn, since notifications may have been lost,
EVERY = 4  # in each of so many calls, and whenever no partition is known to have jobs

_Answer = tuple[int, bytes, int, list[bytes], list[bytes], list[bytes], list[bytes]]  # of lease.lua


class LeaseHooks:
    """The hooks that give leases and keep them."""

    _store: Store

    def _lease(
        self, queues: Sequence[str], *, token: str, worker_id: str, duration: float, limit: int
    ) -> Sequence[Lease]:
        """At most 1,000 jobs a partition."""
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
    """A lease call on its way through the partitions. It is used once."""

    def __init__(
        self, store: Store, queues: Sequence[str], *, token: str, worker_id: str, duration: float, limit: int
    ) -> None:
        self._store = store
        self._serving = store.serving
        self._served = self._serving.of(queues)
        self._marks = store.marks
        self._relies = self._serving.relies(self._served)
        self._token = token
        self._group = bytes.fromhex(token)
        self._worker_id = worker_id
        self._milliseconds = math.ceil(duration * 1000)
        self._limit = limit
        self._is_repeat = not is_first_use(token)
        self._leases: list[Lease] = []
        self._given: dict[Partition, int] = {}  # by partitions that were asked: jobs of this token, those held included
        self._more: dict[Partition, int] = {}  # whether those asked have more: another call may use up their hints
        self._in_turns = False  # more queues have jobs than one call asks
        self._error: BackendError | None = None  # of a partition that could not be asked, the last
        self._answered = False  # by a partition that could be asked
        self._in_doubt = False  # a partition may have given jobs, and its answer is lost

    def run(self) -> list[Lease]:
        """Return the leases. Raises where nothing was leased and a partition could not be asked."""
        self._take(self._serving.sweep(self._served, self._first_calls, self._calls_for_new))
        is_last = False
        while not is_last and (calls := self._further_calls()):
            # An empty result must mean that nothing is there: asked until that is certain. It ends, since a partition
            # is asked again only while it has more, and then gives some, or sets aside what is damaged.
            is_last = bool(self._leases)
            self._take(zip(calls, self._store.calls.run(calls), strict=True))
        is_away = isinstance(self._error, BackendUnavailable)
        if self._error is not None and not self._leases and (is_away or not self._answered):
            raise self._error
        return self._leases

    def _calls_for_new(self, partitions: Sequence[Partition]) -> list[Call]:
        # A repeat takes nothing at first: before more is added, all that is held must be known.
        return self._calls_for(dict.fromkeys(partitions, 0)) if self._is_repeat else _glances(partitions)

    def _first_calls(self) -> list[Call]:
        """Shares for some partitions that may have jobs. Where none is known, a look at those not known to be empty."""
        served = self._served
        if self._is_repeat:
            return self._calls_for_new(served.partitions)
        if len(served.partitions) == 1:  # a glance would only come before
            return self._calls_for({served.partitions[0]: min(self._limit, SLICE)})
        shares = self._shares(WORTH_A_SCRIPT)
        seen: Iterable[Partition] = ()
        if not shares or next(self._store.turns) % EVERY == 0:
            seen = [one for one in served.in_turn("glance", GLANCES) if not served.is_hinted(one)]
        if not shares:
            seen = dict.fromkeys((*self._not_asked(), *seen))
        return self._calls_for({one: share for one, share in shares.items() if share}) + _glances(seen)

    def _further_calls(self) -> list[Call]:
        room = self._limit - len(self._leases)
        if self._in_doubt or room <= 0:
            return []  # what is in doubt is for a repeat to find, before anything is added
        if self._in_turns and room < min(self._served.worth, len(self._leases)):
            return []  # the next call asks for more in one go
        shares = self._shares(WORTH_A_QUEUE if self._in_turns else 1)
        if self._leases:
            return self._calls_for({one: share for one, share in shares.items() if share})
        # Also those that get no share: whether they have more is exact, and no while they are paused.
        return self._calls_for(shares) + _glances(one for one in self._not_asked() if one not in shares)

    def _not_asked(self) -> list[Partition]:
        """Those that this call must look at before its result may be empty: nothing says that they are."""
        unknown = list(self._served.unglanced) if self._relies else self._served.partitions
        return [one for one in unknown if one not in self._more]

    def _shares(self, worth: int) -> dict[Partition, int]:
        """How many jobs are asked of which partition, evenly over the queues that have jobs or over some in turn."""
        room = self._limit - len(self._leases)
        few = max(1, int(room / self._served.worth))
        if self._given and not self._leases:  # nothing was where it was hinted: look further at once
            few = max(few, QUEUES)
        most = max(QUEUES, room // WORTH_A_QUEUE)
        groups = self._served.next_ready(most + 1)
        self._in_turns = len(groups) > most
        if self._in_turns:
            groups = groups[:few]
        elif not groups:
            groups = [[one for one, more in self._more.items() if more]]
        shares: dict[Partition, int] = {}
        for of_queue, mine in zip(_split(room, len(groups)), groups, strict=True):
            chosen = mine[: max(1, of_queue // worth)] if worth > 1 else mine
            for one, share in zip(chosen, _split(of_queue, len(chosen)), strict=True):
                shares[one] = min(share, SLICE - self._given.get(one, 0))
        return shares

    def _calls_for(self, shares: dict[Partition, int]) -> list[Call]:
        """The calls of the lease script, and before them what marks the partitions as leased from."""
        for partition in shares:
            self._served.asked_for_jobs(partition)
        some = [partition for partition, share in shares.items() if share]
        calls = self._marks.before(some, self._ahead, self._milliseconds) if some else []
        now, worker = self._store.calls.now(), self._worker_id.encode()
        for partition, share in shares.items():
            # One that was asked before has returned what it holds for this token, and is only to add to it.
            again = int(partition in self._given)
            calls.append(Call(LEASE, partition, (now, share, self._milliseconds, self._group, worker, again)))
        return calls

    def _ahead(self) -> list[Partition]:
        """Partitions that the next calls will ask."""
        return [mine[0] for mine in self._served.next_ready(MARKED_AHEAD)] if self._in_turns else []

    def _take(self, answers: Iterable[tuple[Call, object]]) -> None:
        """Note what the partitions gave. Never raises: their jobs must not be lost to an error of another."""
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
            self._served.answered(partition, more=more > 0)

    def _take_jobs(self, call: Call, answer: _Answer) -> int:
        """Note the jobs that a partition gave. Returns whether it has more."""
        more, expires, _, ids, records, histories, lost = answer
        partition = call.partition
        if lost:
            log.warning(
                "%r: %d entries name no job that is ready, %r the first; dropped", partition, len(lost), lost[0]
            )
        leases: Sequence[Lease] = ()
        if ids:
            self._marks.taken(partition, len(ids))
            leases, damaged = leases_of(partition, ids, records, histories, self._worker_id, self._token, expires)
            if damaged:  # others are asked for in their place
                self._error = set_aside(self._store, partition, self._group, damaged) or self._error
            self._leases += leases
        self._given[partition] = self._given.get(partition, 0) + len(leases)
        if self._in_turns:
            self._served.gave(len(leases), cast("int", call.args[1]))
        return more

    def _note_error(self, call: Call, error: BackendError) -> None:
        self._error = error
        if isinstance(error, BackendUnavailable):
            self._in_doubt |= call.script is LEASE and call.args[1] != 0
            self._serving.doubt()
        if call.script is LEASE:
            self._marks.in_doubt(call.partition)
        self._served.unglanced.add(call.partition)
        if should_log(str(error)):
            log.warning("%r could not be asked for jobs: %s", call.partition, error)


def _split(number: int, parts: int) -> list[int]:
    """*number* in even parts; the first ones, whose turn it is, have one more."""
    each, rest = divmod(number, parts) if parts else (0, 0)
    return [each + (place < rest) for place in range(parts)]


def _glances(partitions: Iterable[Partition]) -> list[Call]:
    """Ask partitions whether they have ready jobs, at a fraction of what a script costs that finds none."""
    return [Call(None, partition, partition.has_ready()) for partition in partitions]
