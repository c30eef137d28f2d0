"""One lease call: how many from which partition, and a repeat that takes no more than was asked for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
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
from scheduler_backends.redis.shares import shares_of
from scheduler_backends.redis.store import Store

WORTH_A_SCRIPT = 32  # jobs: below that, asking one partition more costs more than its jobs do
WORTH_A_QUEUE = 8  # jobs: below that, a round asks fewer queues if there are more than
QUEUES = 8  # so many: each for what partitions have given lately, since a small share leaves jobs for another script
MARKED_AHEAD = 64  # partitions: to mark many in one call costs little more than to mark one
GLANCES = 8  # partitions looked at beside those that are asked, in turn, since news of them may have been lost,
EVERY = 4  # in each of so many calls
SLOW = 2  # looked at in turn while nothing is hinted, where the news are heard of more than a few partitions

_Answer = tuple[int, bytes, int, list[bytes], list[bytes], list[bytes], list[bytes]]  # of lease.lua


class LeaseCall:
    """One lease call on its way through the partitions."""

    def __init__(self, store: Store, token: str, worker_id: str, duration: float, limit: int, *, looks: bool) -> None:
        self._store = store
        self._calls = store.calls
        self._watch = store.watch
        self._marks = store.marks
        self._turn = next(store.turns)
        self._token = token
        self._group = bytes.fromhex(token)
        self._worker_id = worker_id
        self._milliseconds = math.ceil(duration * 1000)
        self._limit = limit
        self._looks = looks  # the first round takes nothing: before more is added, all that is held must be known
        self._held: list[Lease] = []  # from an earlier try of this call
        self._new: list[Lease] = []
        self._roster: Roster | None = None
        self._given: dict[bytes, int] = {}  # by partitions that were asked for jobs
        self._more: dict[bytes, Partition] = {}  # that have told this call of more: a hint may be taken by another call
        self._unseen: list[Partition] = []  # to be looked at before the answer may be empty
        self._in_turns = False  # more queues have jobs than one call asks
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

    def first_round(self, roster: Roster, partitions: Sequence[Partition]) -> list[Call]:
        """Shares for some partitions that may have jobs; where none is known, a look at those not known to be empty."""
        first, self._roster = self._roster is None, roster
        if self._looks:
            return self._calls_for(dict.fromkeys(partitions, 0))
        if not first:  # these are new
            return list(map(_glance, partitions))
        if len(partitions) == 1:  # a glance would only come before
            return self._calls_for({partitions[0]: min(self._limit, SLICE)})
        groups = self._hinted(roster)
        relies = self._watch.relies(roster)
        if not groups:
            unknown = (*roster.those(roster.unglanced), *roster.in_turn("glance", SLOW)) if relies else partitions
            return list(map(_glance, dict.fromkeys(unknown)))
        if len(groups) == len(groups[0]) == 1:  # as in an idle worker that was woken
            shares = dict.fromkeys(groups[0], min(self._limit, SLICE))
        else:
            shares = self._shares(roster, groups, WORTH_A_SCRIPT)
        seen: list[Partition] = []
        turn, rest = divmod(self._turn, EVERY)
        if relies:
            self._unseen = roster.those(roster.unglanced)
            seen = roster.in_turn("glance", SLOW) if rest == 0 else []
        else:
            hinted = {one for some in groups for one in some}
            others = [one for one in partitions if one not in hinted]
            first_of_all = turn * GLANCES % max(len(others), 1)
            others = others[first_of_all:] + others[:first_of_all]
            seen = others[: GLANCES if rest == 0 else 0]
            self._unseen = others[len(seen) :]
        return self._calls_for({one: share for one, share in shares.items() if share}) + list(map(_glance, seen))

    def further_round(self) -> list[Call]:
        """Who is still to be asked while more is wanted."""
        room = self._room(self._held, self._new)
        if self._in_doubt or room == 0 or self._roster is None:
            return []  # what is in doubt is for a repeat to find, before anything is added
        if self._in_turns and room < min(self._watch.worth, len(self._new)):
            return []  # the next call asks for more in one go
        self._turn += 1  # others are asked first than in the last round, which may have given nothing
        groups = [
            some
            for group in self._hinted(self._roster) or _by_queue(self._more.values())
            if (some := [one for one in group if self._given.get(one.tag, 0) < SLICE])
        ]
        shares = self._shares(self._roster, groups, WORTH_A_QUEUE if self._in_turns else 1)
        if self._held or self._new:
            return self._calls_for({one: share for one, share in shares.items() if share})  # a short answer will do
        # Also those that get no share: what they answer is exact, and 0 where they are paused.
        unseen = [one for one in self._unseen if one not in shares]
        return self._calls_for(shares) + list(map(_glance, unseen))

    def _hinted(self, roster: Roster) -> list[list[Partition]]:
        room = self._room(self._held, self._new)
        most, few = max(QUEUES, room // WORTH_A_QUEUE), max(1, int(room / self._watch.worth))
        if self._given and not (self._held or self._new):  # nothing was where it was hinted: look further at once
            few = max(few, QUEUES)
        groups, self._in_turns = self._watch.hinted(roster, most, few)
        return groups

    def _calls_for(self, shares: Mapping[Partition, int]) -> list[Call]:
        """The calls of the lease script, and before them what marks the partitions as leased from."""
        some = [partition for partition, share in shares.items() if share]
        marks = self._marks.before(some, self._ahead, self._milliseconds) if some else []
        return marks + [self._call(partition, share) for partition, share in shares.items()]

    def _ahead(self) -> list[Partition]:
        """Partitions that the next calls will ask."""
        return self._watch.next_in_turn(self._roster, MARKED_AHEAD) if self._roster and self._in_turns else []

    def take(self, answers: Sequence[tuple[Call, object]]) -> None:
        """
        Note what the partitions gave.

        Never raises: jobs that some have given must not be lost to an error of another.
        """
        asked = {call.partition.tag for call, _ in answers}
        self._unseen = [partition for partition in self._unseen if partition.tag not in asked]
        for call, answer in answers:
            if call.script is MARK:
                self._marks.take(call, answer)
            elif isinstance(answer, BackendError):
                self._note_error(call, answer)
            elif call.script is LEASE:
                self._answered = True
                given = self._take_jobs(call.partition, cast("_Answer", answer))
                if self._in_turns:
                    self._watch.gave(given, cast("int", call.args[1]))
            else:
                self._answered = True
                self._note_more(call.partition, more=cast("int", answer))

    def _note_error(self, call: Call, error: BackendError) -> None:
        self._error = error
        self._more.pop(call.partition.tag, None)
        away = isinstance(error, BackendUnavailable)
        self._in_doubt |= away and call.script is LEASE and call.args[1] != 0
        if away:
            self._watch.doubt()
        if call.script is LEASE:
            self._marks.in_doubt(call.partition)
        if self._roster is not None:
            self._watch.failed(self._roster, call.partition)
        if should_log(str(error)):
            log.warning("%r could not be asked for jobs: %s", call.partition, error)

    def _take_jobs(self, partition: Partition, answer: _Answer) -> int:
        more, expires, before, ids, records, histories, lost = answer
        self._note_more(partition, more=more)
        if lost:
            log.warning(
                "%r: %d entries name no job that is ready, %r the first; dropped", partition, len(lost), lost[0]
            )
        given = len(ids)
        if ids:
            self._marks.taken(partition, len(ids))
            leases, damaged = leases_of(
                partition, ids, records, histories, self._worker_id, self._token, int(float(expires)) * 1000
            )
            if damaged:
                unreadable = {raw for raw, _, _ in damaged}
                before -= len(unreadable.intersection(ids[:before]))
                given = len(leases)  # the others are asked for again
                self._error = set_aside(self._store, partition, self._group, damaged) or self._error
            self._held += leases[:before]
            self._new += leases[before:]
        self._given[partition.tag] = self._given.get(partition.tag, 0) + given
        return given

    def _note_more(self, partition: Partition, *, more: int) -> None:
        if more > 0:
            self._more[partition.tag] = partition
        else:
            self._more.pop(partition.tag, None)
        if self._roster is not None:
            self._watch.answered(self._roster, partition, more=more > 0)

    def _room(self, *taken: Sequence[Lease]) -> int:
        return max(self._limit - sum(map(len, taken)), 0)

    def _shares(self, roster: Roster, groups: Sequence[Sequence[Partition]], worth: int) -> dict[Partition, int]:
        room = self._room(self._held, self._new)
        shares = shares_of(room, groups, roster, worth=worth, turn=self._turn)
        return {one: min(share, SLICE - self._given.get(one.tag, 0)) for one, share in shares.items()}

    def _call(self, partition: Partition, share: int) -> Call:
        # One that was asked before has said what it holds for a repeat of this call, and is only to add to it.
        again = int(partition.tag in self._given)
        if self._roster is not None:
            self._watch.asked_for_jobs(self._roster, partition)
        args = (self._calls.now(), share, self._milliseconds, self._group, self._worker_id.encode(), again)
        return Call(LEASE, partition, args)


def _by_queue(partitions: Iterable[Partition]) -> list[list[Partition]]:
    groups: dict[str, list[Partition]] = {}
    for partition in partitions:
        groups.setdefault(partition.queue, []).append(partition)
    return list(groups.values())


def _glance(partition: Partition) -> Call:
    """Asks a partition whether it has ready jobs, at a fraction of what a script costs that finds none."""
    return Call(None, partition, partition.has_ready())
