"""The queues that are served: all their partitions, and how changes of their layouts are noticed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import cast

from scheduler.errors import BackendError, BackendUnavailable
from scheduler_backends.redis.calls import SHARED_SILENCE, Call, Calls
from scheduler_backends.redis.client.router import Command
from scheduler_backends.redis.errors import log, should_log
from scheduler_backends.redis.keys import Keys, Partition
from scheduler_backends.redis.layouts import ROUNDS, Layouts
from scheduler_backends.redis.rosters import Roster

ROSTERS = 32  # sets of queues kept at hand
READ_EVERY = 0.5  # seconds between two readings of a layout that has not changed, as far as is known


_Change = tuple[bytes, float]  # a queue and the number of its last change


class Serving:
    """
    The rosters of served queues, and calls on all of their partitions. Any thread.

    Changes are read from the sorted set `changes`: queue → number of its last change, the highest of all so far plus
    one. One read says for all queues which have changed since the last one.
    """

    def __init__(self, calls: Calls, layouts: Layouts, keys: Keys, interval: float) -> None:
        self._calls = calls
        self._layouts = layouts
        self._changes = keys.shared.key("changes")
        self._interval = interval
        self._rosters: dict[tuple[str, ...], Roster] = {}
        self._suspect: set[str] = set()  # queues that have changed, or may have, since their layout was read
        self._read_at = 0.0  # when a layout was read again last, by time.monotonic()
        self._last: _Change | None = None  # up to which all layouts known here are up to date; None = nothing is known
        self._silent_until = 0.0  # by time.monotonic()

    def partition(self, tag: bytes) -> Partition | None:
        """The partition with this tag, if it is served here."""
        for roster in tuple(self._rosters.values()):
            if (place := roster.place.get(tag)) is not None:
                return roster.partitions[place]
        return None

    def suspect(self, queue: str) -> None:
        """Read the layout of *queue* again when the queue is next served: the one known may be old."""
        self._suspect.add(queue)

    def roster(self, queues: Sequence[str]) -> Roster:
        """The partitions of *queues*, as far as is known; what is not known is read."""
        names = tuple(queues)
        roster = self._rosters.get(names)
        if self._last is None:
            self._learn_from_now_on()
        if roster is not None:
            self._suspect_the_next(roster)
        suspected = [] if not self._suspect else [name for name in names if name in self._suspect]
        if roster is None or roster.reading != self._layouts.reading or suspected:
            unknown = [name for name in names if self._layouts.known(name) is None and name not in self._suspect]
            if unknown:
                found = self._layouts.readable(unknown, served=True)
                self._suspect.update(name for name in unknown if name not in found)
            if suspected:
                self._read_again(suspected)
            roster = self._new_roster(names, roster)
        return roster

    def _suspect_the_next(self, roster: Roster) -> None:
        # In turn, and seldom: for a change without a number, such as one made by hand.
        now = time.monotonic()
        if now - self._read_at < READ_EVERY:
            return
        self._read_at = now
        name = roster.next_name()
        layout = self._layouts.known(name)
        if layout is not None and now - layout.read_at > self._interval:
            self._suspect.add(name)

    def _read_again(self, queues: Sequence[str]) -> None:
        self._suspect.difference_update(queues)  # first, so that a change that comes meanwhile is kept
        try:
            found = self._layouts.readable(queues, served=True)
        except BackendUnavailable as error:  # an old layout will do: other servers than this one may have jobs
            self._suspect.update(queues)
            if should_log(str(error)):
                log.warning("a layout that may have changed cannot be read now: %s", error)
        except BackendError:
            self._suspect.update(queues)
            raise
        else:  # a damaged one is served as it was known, and read each time until it is repaired
            self._suspect.update(name for name in queues if name not in found)

    def _new_roster(self, names: tuple[str, ...], older: Roster | None) -> Roster:
        reading = self._layouts.reading
        older = self._rosters.get(names, older)  # another thread may have made it meanwhile
        if older is not None and older.reading == reading:
            return older
        layouts = {name: self._layouts.known(name) for name in names}
        made = Roster(
            names,
            {name: layout.partitions for name, layout in layouts.items() if layout is not None and layout.exists},
            reading,
        )
        if older is not None:
            made.take_over(older)
        self._rosters[names] = made
        while len(self._rosters) > ROSTERS:
            with suppress(RuntimeError, StopIteration):  # another thread was at it in between
                self._rosters.pop(next(iter(self._rosters)), None)
        if older is None:
            self._layouts.served = frozenset().union(*(one.names for one in tuple(self._rosters.values())))
        return made

    def sweep(
        self, queues: Sequence[str], ask: Callable[[Roster, Sequence[Partition]], Sequence[Call]]
    ) -> list[tuple[Call, object]]:
        """
        Call the partitions of *queues*. Returns each call with its answer, or with the library's error.

        *ask* makes the calls for some partitions of a roster, first for all of them. Whether a layout has changed is
        read in the same round trip, so that a version or a queue that is new since the last call is not overlooked: its
        partitions are then asked in a further one.
        """
        results: list[tuple[Call, object]] = []
        roster = self.roster(queues)
        partitions: Sequence[Partition] = roster.partitions
        for _ in range(ROUNDS):
            calls = ask(roster, partitions) if partitions else []
            questions = self._questions()
            answers = self._calls.run(calls, questions)
            results.extend(zip(calls, answers, strict=False))
            if not questions:
                return results
            older = roster
            try:
                roster = self._follow(queues, older, answers[-1])
            except BackendError:
                if not results:
                    raise
                return results  # what was moved must not be lost to the caller; the change is noticed again
            partitions = [one for one in roster.partitions if one.tag not in older.place] if roster is not older else []
            if not partitions:
                return results
        raise BackendUnavailable("the layout of a queue changes faster than it can be read")

    def _follow(self, queues: Sequence[str], roster: Roster, answer: object) -> Roster:
        """The roster after what has changed in the store; the same one where nothing has."""
        if isinstance(answer, BackendError):
            self._silent_until = time.monotonic() + SHARED_SILENCE
            raise answer
        last, changes = self._last, _changes_in(answer)
        if last is None or (not changes and last[1]):  # the store has lost the last change known: read all again
            self._learn_from_now_on()
            return self.roster(queues)
        changed = {name.decode(errors="replace") for name, number in changes if (name, number) != last and name}
        if changed:
            # First, so that a layout is never taken for newer than it is.
            served = self._layouts.served
            self._suspect.update(name for name in changed if name in served or self._layouts.known(name) is not None)
            roster = self.roster(queues)
        if changes:
            self._last = changes[-1]
        return roster

    def _learn_from_now_on(self) -> None:
        """Find the last change, if the server replies. Layouts that were read before may be old."""
        if time.monotonic() < self._silent_until:
            return
        command = Command(self._changes, (b"ZRANGE", self._changes, 0, 0, b"REV", b"WITHSCORES"))
        (answer,) = self._calls.run((), [command])
        if isinstance(answer, BackendError):
            self._silent_until = time.monotonic() + SHARED_SILENCE
            return
        self._last = (_changes_in(answer) or [(b"", 0.0)])[0]
        self._suspect.update(self._layouts.all_known())

    def _questions(self) -> list[Command]:
        """The command that reads what has changed, if it is to be sent now. The last change known comes with it."""
        if self._last is None or time.monotonic() < self._silent_until:
            return []
        first = b"%.0f" % self._last[1]
        return [Command(self._changes, (b"ZRANGEBYSCORE", self._changes, first, b"+inf", b"WITHSCORES"))]


def _changes_in(answer: object) -> list[_Change]:
    flat = cast("Sequence[bytes] | Sequence[tuple[bytes, float]]", answer)
    if flat and not isinstance(flat[0], bytes):  # RESP3 has pairs
        return [(name, float(score)) for name, score in cast("Sequence[tuple[bytes, float]]", flat)]
    words = cast("Sequence[bytes]", flat)
    return [(name, float(score)) for name, score in zip(words[::2], words[1::2], strict=True)]
