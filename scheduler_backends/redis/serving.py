"""The queues that somebody serves: all their partitions, and how a change of their layouts is learned of."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from scheduler.errors import BackendError, BackendUnavailable
from scheduler_backends.redis.calls import Call, Calls
from scheduler_backends.redis.changes import Changes
from scheduler_backends.redis.errors import log, should_log
from scheduler_backends.redis.keys import Partition
from scheduler_backends.redis.layouts import ROUNDS, Layouts
from scheduler_backends.redis.rosters import Roster

ROSTERS = 32  # sets of queues kept at hand
READ_EVERY = 0.5  # seconds between two readings of layouts that nothing says have changed


class Serving:
    """Asks the partitions of queues that are served. Any thread."""

    def __init__(self, calls: Calls, layouts: Layouts, changes: Changes, interval: float) -> None:
        self._calls = calls
        self._layouts = layouts
        self._changes = changes
        self._interval = interval
        self._rosters: dict[tuple[str, ...], Roster] = {}
        self._suspect: set[str] = set()  # queues that have changed, or may have, since their layout was read
        self._read_at = 0.0  # when a layout was read again last, by time.monotonic()

    def has(self, tag: bytes) -> bool:
        """Whether somebody here serves the partition with this tag."""
        return any(tag in roster.place for roster in tuple(self._rosters.values()))

    def suspect(self, queue: str) -> None:
        """The layout known of *queue* may be old: read it again when the queue is next served."""
        self._suspect.add(queue)

    def roster(self, queues: Sequence[str]) -> Roster:
        """The partitions of *queues*, as far as is known; what is not known is read."""
        names = tuple(queues)
        roster = self._rosters.get(names)
        if not self._changes.are_known and self._changes.start():
            self._suspect.update(self._layouts.all_known())
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
        # In turn, and seldom: for a change that nobody could tell of, such as one by hand.
        now = time.monotonic()
        if now - self._read_at < READ_EVERY:
            return
        self._read_at = now
        name = roster.next_name()
        layout = self._layouts.known(name)
        if layout is not None and now - layout.read_at > self._interval:
            self._suspect.add(name)

    def _read_again(self, queues: Sequence[str]) -> None:
        self._suspect.difference_update(queues)  # first: what comes meanwhile counts anew
        try:
            found = self._layouts.readable(queues, served=True)
        except BackendUnavailable as error:  # an old layout will do: other servers than this one may have jobs
            self._suspect.update(queues)
            if should_log(str(error)):
                log.warning("a layout that may have changed cannot be read now: %s", error)
        except BackendError:
            self._suspect.update(queues)
            raise
        else:  # one that is damaged is served as it was known, and read each time until it is mended
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
        The calls on the partitions of *queues*, each with its answer; errors of the library stand in place of those.

        *ask* makes the calls for some partitions of a roster, first for all of them. Whether a layout has changed is
        read in the same round trip, so that a version or a queue that is new since the last call is not overlooked: its
        partitions are then asked in a further one.
        """
        results: list[tuple[Call, object]] = []
        roster = self.roster(queues)
        partitions: Sequence[Partition] = roster.partitions
        for _ in range(ROUNDS):
            calls = ask(roster, partitions) if partitions else []
            questions = self._changes.questions()
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
                return results  # what was moved must not be lost to the caller; the change is met again
            partitions = [one for one in roster.partitions if one.tag not in older.place] if roster is not older else []
            if not partitions:
                return results
        raise BackendUnavailable("the layout of a queue changes faster than it can be read")

    def _follow(self, queues: Sequence[str], roster: Roster, answer: object) -> Roster:
        """The roster after what has changed in the store; the same one where nothing has."""
        if isinstance(answer, BackendError):
            self._changes.failed()
            raise answer
        news = self._changes.since(answer)
        if news is None:  # the store has lost what it had told: read all again
            if self._changes.start():
                self._suspect.update(self._layouts.all_known())
            return self.roster(queues)
        changed, last = news
        if changed:
            # First, so that a layout is never taken for newer than it is. Those that others serve are read by them.
            served = self._layouts.served
            self._suspect.update(name for name in changed if name in served or self._layouts.known(name) is not None)
            roster = self.roster(queues)
        self._changes.note(last)
        return roster
