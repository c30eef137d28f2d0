"""One lease call: shares for the partitions whose turn it is, then one more round to those that had more."""

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
from scheduler_backends.redis.rosters import Roster
from scheduler_backends.redis.scripts import LEASE, MARK, SLICE
from scheduler_backends.redis.store import Store

WORTH_A_SCRIPT = 32  # jobs: below that, asking one partition more costs more than its jobs do
WORTH_A_QUEUE = 8  # jobs: below that, a round asks fewer queues if there are more than
QUEUES = 8  # so many: each for what partitions have given lately, since a small share leaves jobs for another script
MARKED_AHEAD = 64  # partitions: to mark many in one call costs little more than to mark one
GLANCES = 8  # partitions looked at beside those that are asked, in turn, since notifications may have been lost,
EVERY = 4  # in each of so many calls
SLOW = 2  # looked at in turn where notifications of more than a few partitions are received

_Answer = tuple[int, bytes, int, list[bytes], list[bytes], list[bytes], list[bytes]]  # of lease.lua


class LeaseCall:
    """A lease call on its way through the partitions. It is used once."""

    def __init__(
        self, store: Store, token: str, worker_id: str, duration: float, limit: int, *, is_repeat: bool
    ) -> None:
        self._store = store
        self._watch = store.watch
        self._turn = next(store.turns)
        self._token = token
        self._group = bytes.fromhex(token)
        self._worker_id = worker_id
        self._milliseconds = math.ceil(duration * 1000)
        self._limit = limit
        self._is_repeat = is_repeat
        self._leases: list[Lease] = []
        self._roster: Roster | None = None
        self._given: dict[
            bytes, int
        ] = {}  # by partitions that were asked: jobs of this token, those held before included
        self._more: dict[bytes, Partition] = {}  # that have jobs left: another call may use up the hints of them
        self._asked: set[bytes] = set()  # the tags of all partitions that were asked or looked at
        self._in_turns = False  # more queues have jobs than one call asks
        self._answered = False
        self._error: BackendError | None = None  # of a partition that could not be asked, the last
        self._in_doubt = False  # a partition may have given jobs, and its answer is lost

    def run(self, queues: Sequence[str]) -> list[Lease]:
        """Lease jobs of *queues*. Raises where nothing was leased and a partition could not be asked."""
        self._take(self._store.serving.sweep(queues, self._first_calls))
        is_last = False
        while not is_last and (calls := self._further_calls()):
            # An empty result must mean that nothing is there: asked until that is certain. It ends, since a partition
            # is asked again only while it has more, and then gives some, or sets aside what is damaged.
            is_last = bool(self._leases)
            self._take(list(zip(calls, self._store.calls.run(calls), strict=True)))
        is_away = isinstance(self._error, BackendUnavailable)
        if self._error is not None and not self._leases and (is_away or not self._answered):
            raise self._error
        return self._leases

    def _first_calls(self, roster: Roster, partitions: Sequence[Partition]) -> list[Call]:
        """Shares for some partitions that may have jobs. Where none is known, a look at those not known to be empty."""
        is_first, self._roster = self._roster is None, roster
        if self._is_repeat:  # takes nothing: before more is added, all that is held must be known
            return self._calls_for(roster, dict.fromkeys(partitions, 0))
        if not is_first:  # these are new
            return list(map(_glance, partitions))
        if len(partitions) == 1:  # a glance would only come before
            return self._calls_for(roster, {partitions[0]: min(self._limit, SLICE)})
        relies = self._watch.relies(roster)
        shares = self._shares(roster, WORTH_A_SCRIPT)
        if not shares:
            in_turn = roster.in_turn("glance", SLOW) if relies else []
            return list(map(_glance, dict.fromkeys((*self._not_asked(roster), *in_turn))))
        seen: list[Partition] = []
        if self._turn % EVERY == 0:
            in_turn = roster.in_turn("glance", SLOW if relies else GLANCES)
            seen = [one for one in in_turn if one not in self._watch.ready]
        return self._calls_for(roster, {one: share for one, share in shares.items() if share}) + list(
            map(_glance, seen)
        )

    def _further_calls(self) -> list[Call]:
        room = self._limit - len(self._leases)
        roster = self._roster
        if self._in_doubt or room <= 0 or roster is None:
            return []  # what is in doubt is for a repeat to find, before anything is added
        if self._in_turns and room < min(self._watch.worth, len(self._leases)):
            return []  # the next call asks for more in one go
        shares = self._shares(roster, WORTH_A_QUEUE if self._in_turns else 1)
        if self._leases:
            return self._calls_for(roster, {one: share for one, share in shares.items() if share})
        # Also those that get no share: whether they have more is exact, and no while they are paused.
        return self._calls_for(roster, shares) + [_glance(one) for one in self._not_asked(roster) if one not in shares]

    def _not_asked(self, roster: Roster) -> list[Partition]:
        """Those that this call must look at before its result may be empty: nothing says that they are."""
        unknown = roster.those(roster.unglanced) if self._watch.relies(roster) else roster.partitions
        return [one for one in unknown if one.tag not in self._asked]

    def _shares(self, roster: Roster, worth: int) -> dict[Partition, int]:
        """How many jobs are asked of which partition, evenly over the queues that have jobs or over some in turn."""
        room = self._limit - len(self._leases)
        most, few = max(QUEUES, room // WORTH_A_QUEUE), max(1, int(room / self._watch.worth))
        if self._given and not self._leases:  # nothing was where it was hinted: look further at once
            few = max(few, QUEUES)
        groups, self._in_turns = self._watch.ready.first(roster, most, few)
        groups = groups or _by_queue(self._more.values())
        shares: dict[Partition, int] = {}
        for of_queue, mine in zip(_split(room, len(groups)), groups, strict=True):
            chosen = mine[: max(1, of_queue // worth)] if worth > 1 else mine
            for one, share in zip(chosen, _split(of_queue, len(chosen)), strict=True):
                shares[one] = min(share, SLICE - self._given.get(one.tag, 0))
        return shares

    def _calls_for(self, roster: Roster, shares: dict[Partition, int]) -> list[Call]:
        """The calls of the lease script, and before them what marks the partitions as leased from."""
        store = self._store
        for partition in shares:
            self._watch.asked_for_jobs(roster, partition)
        some = [partition for partition, share in shares.items() if share]
        calls = store.marks.before(some, lambda: self._ahead(roster), self._milliseconds) if some else []
        now = store.calls.now()
        for partition, share in shares.items():
            # One that was asked before has returned what it holds for this token, and is only to add to it.
            again = int(partition.tag in self._given)
            args = (now, share, self._milliseconds, self._group, self._worker_id.encode(), again)
            calls.append(Call(LEASE, partition, args))
        return calls

    def _ahead(self, roster: Roster) -> list[Partition]:
        """Partitions that the next calls will ask."""
        return self._watch.ready.next_of_each(roster, MARKED_AHEAD) if self._in_turns else []

    def _take(self, answers: Sequence[tuple[Call, object]]) -> None:
        """Note what the partitions gave. Never raises: their jobs must not be lost to an error of another."""
        self._asked.update(call.partition.tag for call, _ in answers)
        for call, answer in answers:
            if call.script is MARK:
                self._store.marks.take(call, answer)
            elif isinstance(answer, BackendError):
                self._note_error(call, answer)
            elif call.script is LEASE:
                self._note_more(call.partition, more=cast("_Answer", answer)[0])
                given = self._take_jobs(call.partition, cast("_Answer", answer))
                if self._in_turns:
                    self._watch.gave(given, cast("int", call.args[1]))
            else:
                self._note_more(call.partition, more=cast("int", answer))

    def _take_jobs(self, partition: Partition, answer: _Answer) -> int:
        _, expires, _, ids, records, histories, lost = answer
        self._given.setdefault(partition.tag, 0)
        if lost:
            log.warning(
                "%r: %d entries name no job that is ready, %r the first; dropped", partition, len(lost), lost[0]
            )
        if not ids:
            return 0
        self._store.marks.taken(partition, len(ids))
        leases, damaged = leases_of(partition, ids, records, histories, self._worker_id, self._token, expires)
        if damaged:  # others are asked for in their place
            self._error = set_aside(self._store, partition, self._group, damaged) or self._error
        self._leases += leases
        self._given[partition.tag] += len(leases)
        return len(leases)

    def _note_error(self, call: Call, error: BackendError) -> None:
        self._error = error
        self._more.pop(call.partition.tag, None)
        if isinstance(error, BackendUnavailable):
            self._in_doubt |= call.script is LEASE and call.args[1] != 0
            self._watch.doubt()
        if call.script is LEASE:
            self._store.marks.in_doubt(call.partition)
        if self._roster is not None:
            self._watch.failed(self._roster, call.partition)
        if should_log(str(error)):
            log.warning("%r could not be asked for jobs: %s", call.partition, error)

    def _note_more(self, partition: Partition, *, more: int) -> None:
        self._answered = True
        if more:
            self._more[partition.tag] = partition
        else:
            self._more.pop(partition.tag, None)
        if self._roster is not None:
            self._watch.answered(self._roster, partition, more=more > 0)


def _split(number: int, parts: int) -> list[int]:
    """*number* in even parts; the first ones, whose turn it is, have one more."""
    each, rest = divmod(number, parts) if parts else (0, 0)
    return [each + (place < rest) for place in range(parts)]


def _by_queue(partitions: Iterable[Partition]) -> list[list[Partition]]:
    groups: dict[str, list[Partition]] = {}
    for partition in partitions:
        groups.setdefault(partition.queue, []).append(partition)
    return list(groups.values())


def _glance(partition: Partition) -> Call:
    """Asks a partition whether it has ready jobs, at a fraction of what a script costs that finds none."""
    return Call(None, partition, partition.has_ready())
