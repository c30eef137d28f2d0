"""Serving queues: which partitions they have, how changes are noticed, and whether notifications can be relied on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import cast

from scheduler.abilities import WakeReason
from scheduler.errors import BackendError, BackendUnavailable
from scheduler_backends.redis.calls import SHARED_SILENCE, Call, Calls
from scheduler_backends.redis.client.node import Command
from scheduler_backends.redis.errors import log, should_log
from scheduler_backends.redis.keys import Keys, Partition
from scheduler_backends.redis.layouts import ROUNDS, Layouts
from scheduler_backends.redis.served import FEW, Listener, Served

SETS = 32  # sets of queues kept at hand, then all are forgotten
READ_EVERY = 0.5  # seconds between two readings of a layout that has not changed, as far as is known

_Change = tuple[bytes, float]  # a queue and the number of its last change


class Serving:
    """
    The sets of queues that one process serves. Any thread.

    Changes are read from the sorted set `changes`: queue → number of its last change, the highest of all so far plus
    one. One read says for all queues which have changed since the last one.
    """

    def __init__(self, calls: Calls, layouts: Layouts, keys: Keys, interval: float) -> None:
        self._calls = calls
        self._layouts = layouts
        self._changes = keys.shared.key("changes")
        self._interval = interval
        self._sets: dict[tuple[str, ...], Served] = {}
        self._read_at = 0.0  # when a layout was read again last, by time.monotonic()
        self._last: _Change | None = None  # up to which all layouts known here are up to date; None = nothing is known
        self._silent_until = 0.0  # by time.monotonic()
        self._listeners: list[Listener] = []
        self._since = 0  # grows whenever notifications may have been missed

    # ---- notifications

    def subscribed(self, listener: Listener) -> None:
        """*listener* receives what is published from now on. What came before may have been missed."""
        if listener not in self._listeners:
            self._listeners.append(listener)
        self._since += 1

    def lost(self, listener: Listener) -> None:
        """*listener* receives nothing any more."""
        if listener in self._listeners:
            self._listeners.remove(listener)
            self._since += 1

    def doubt(self) -> None:
        """A server was away: notifications may have been lost."""
        self._since += 1

    def notified(self, queue: str | None, tag: bytes, reason: WakeReason) -> None:
        """A message has come from the partition with this tag: a hint, so it does no harm if it is not true."""
        is_known = False
        for served in tuple(self._sets.values()):
            partition = served.by_tag.get(tag)
            if partition is not None:
                is_known = True
                if WakeReason.JOBS_READY in reason:
                    served.has_ready(partition)
                if WakeReason.EARLIER_DUE_TIME in reason:
                    served.has_sooner(partition)
        if queue is not None and not is_known:  # of a version that this process does not know yet
            self._suspect([queue])

    def relies(self, served: Served) -> bool:
        """
        Whether partitions without a hint need not be asked.

        Where no notifications are received, or where there are only few partitions, all are asked.
        """
        if len(served.partitions) <= FEW or self._calls.clock is not None:  # which may jump, and is no server's
            return False
        if served.since != self._since:
            since = self._since
            served.listeners = [one for one in tuple(self._listeners) if one.queues >= served.queues]
            served.forget()
            served.since = since
        return any(one.is_active() for one in served.listeners)

    # ---- layouts

    def of(self, queues: Sequence[str]) -> Served:
        """The partitions of *queues*, as far as is known; what is not known is read."""
        names = tuple(queues)
        served = self._sets.get(names)
        if served is None:
            if len(self._sets) >= SETS:
                self._sets.clear()
            served = self._sets.setdefault(names, Served(names))
            served.update(self._layouts.known(names))  # for the case that they cannot be read now
        if self._last is None:
            self._learn_from_now_on()
        self._suspect_the_next(served)
        if served.suspected or not served.is_read:
            self._read(served)
        return served

    def _suspect(self, queues: Sequence[str]) -> None:
        """Read these layouts again when their queues are next served: those known may be old."""
        for served in tuple(self._sets.values()):
            served.suspected.update(served.queues.intersection(queues))

    def _suspect_the_next(self, served: Served) -> None:
        # In turn, and seldom: for a change without a number, such as one made by hand.
        now = time.monotonic()
        if now - self._read_at < READ_EVERY:
            return
        self._read_at = now
        name = next(served.rotation)
        layout = served.layouts.get(name)
        if layout is None or now - layout.read_at > self._interval:
            served.suspected.add(name)

    def _read(self, served: Served) -> None:
        names = list(served.suspected) if served.is_read else list(served.names)
        served.suspected.difference_update(names)  # first, so that a change that comes meanwhile is kept
        try:
            found = self._layouts.read(names, skip_damaged=True)
        except BackendError as error:
            served.suspected.update(names)
            if not isinstance(error, BackendUnavailable) or not served.layouts.keys() >= set(names):
                raise
            if should_log(str(error)):  # old layouts will do: other servers than this one may have jobs
                log.warning("a layout that may have changed cannot be read now: %s", error)
            return
        # A damaged one is served as it was known, and read each time until it is repaired.
        served.suspected.update(name for name in names if name not in found)
        served.update(found)
        served.is_read = True

    # ---- changes

    def sweep(
        self,
        served: Served,
        first: Callable[[], Sequence[Call]],
        ask_new: Callable[[Sequence[Partition]], Sequence[Call]],
    ) -> list[tuple[Call, object]]:
        """
        Make the calls that *first* returns. Returns each call with its answer, or with the library's error.

        Whether a layout has changed is read in the same round trip, so that a version or a queue that is new since the
        last call is not overlooked: *ask_new* makes the calls for its partitions, which follow in a further one.
        """
        results: list[tuple[Call, object]] = []
        known = served.by_tag
        calls = first()
        for _ in range(ROUNDS):
            questions = self._questions()
            answers = self._calls.run(calls, questions)
            results.extend(zip(calls, answers, strict=False))
            try:
                if questions:
                    self._follow(served, answers[-1])
            except BackendError:
                if not results:
                    raise
                return results  # what was moved must not be lost to the caller; the change is noticed again
            before, known = known, served.by_tag
            new = [one for tag, one in known.items() if tag not in before] if known is not before else []
            if not new:
                return results
            calls = ask_new(new)
        raise BackendUnavailable("the layout of a queue changes faster than it can be read")

    def _follow(self, served: Served, answer: object) -> None:
        """Read the layouts that have changed in the store."""
        if isinstance(answer, BackendError):
            self._silent_until = time.monotonic() + SHARED_SILENCE
            raise answer
        last, changes = self._last, _changes_in(answer)
        changed = [name.decode(errors="replace") for name, number in changes if (name, number) != last]
        if not changes and last and last[1]:  # the store has lost the last change known: read all again
            self._learn_from_now_on()
        elif changed:
            self._suspect(changed)
        else:
            return
        if served.suspected:
            self._read(served)
        if changes:  # only now, so that a layout is never taken for newer than it is
            self._last = changes[-1]

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
        for served in tuple(self._sets.values()):
            served.suspected.update(served.queues)

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
