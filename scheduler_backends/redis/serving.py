"""Cache of the partitions that a process serves: detects layout changes, and tracks the notifications received."""

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

SETS = 32  # sets of queues; when there are more, the cache is cleared
READ_EVERY = 0.5  # seconds between two reads of layouts for which no change was detected

_Change = tuple[bytes, float]  # a queue, and the number of its last change


class Serving:
    """
    Cache of the sets of queues that one process serves. Thread-safe.

    Layout changes are read from the sorted set `changes`: it maps a queue to the number of its last change. Each
    change gets the highest number so far plus one. So one read returns all queues that changed since the last read.
    """

    def __init__(self, calls: Calls, layouts: Layouts, keys: Keys, interval: float) -> None:
        self._calls = calls
        self._layouts = layouts
        self._changes = keys.shared.key("changes")
        self._interval = interval
        self._sets: dict[tuple[str, ...], Served] = {}
        self._read_at = 0.0  # when a layout without a detected change was read last, by time.monotonic()
        self._last: _Change | None = None  # the cached layouts include all changes up to this one; None = unknown
        self._silent_until = 0.0  # no reads of `changes` before, by time.monotonic()
        self._listeners: list[Listener] = []
        self._since = 0  # increased whenever notifications may have been missed

    # ---- notifications

    def subscribed(self, listener: Listener) -> None:
        """Register *listener*, which has just subscribed. Earlier notifications may have been missed."""
        if listener not in self._listeners:
            self._listeners.append(listener)
        self._since += 1

    def unsubscribed(self, listener: Listener) -> None:
        """Remove *listener*, whose subscription has ended."""
        if listener in self._listeners:
            self._listeners.remove(listener)
            self._since += 1

    def note_outage(self) -> None:
        """Note that a server was unavailable, so that notifications may have been lost."""
        self._since += 1

    def notified(self, queue: str | None, tag: bytes, reason: WakeReason) -> None:
        """Note a notification from the partition with this tag. It is only a hint, so a wrong one does no harm."""
        is_known = False
        for served in tuple(self._sets.values()):
            partition = served.by_tag.get(tag)
            if partition is not None:
                is_known = True
                if WakeReason.JOBS_READY in reason:
                    served.note_ready(partition)
                if WakeReason.EARLIER_DUE_TIME in reason:
                    served.note_earlier(partition)
        if queue is not None and not is_known:  # from a version that is not in the cached layout
            self._mark_stale([queue])

    def relies_on_notifications(self, served: Served) -> bool:
        """
        Return whether partitions without a hint can be skipped.

        False if no notifications are received, or if there are few partitions: then every call asks all of them.
        """
        if len(served.partitions) <= FEW or self._calls.clock is not None:  # a test's clock may jump
            return False
        if served.since != self._since:
            since = self._since
            served.listeners = [one for one in tuple(self._listeners) if one.queues >= served.queues]
            served.forget()
            served.since = since
        return any(one.is_active() for one in served.listeners)

    # ---- layouts

    def of(self, queues: Sequence[str]) -> Served:
        """Return the partitions of *queues*. Layouts that are missing or may be stale are read first."""
        names = tuple(queues)
        served = self._sets.get(names)
        if served is None:
            if len(self._sets) >= SETS:
                self._sets.clear()
            served = self._sets.setdefault(names, Served(names))
            served.update(self._layouts.known(names))  # used if they cannot be read now
        if self._last is None:
            self._reset_last_change()
        self._mark_next_stale(served)
        if served.stale or not served.is_read:
            self._read(served)
        return served

    def _mark_stale(self, queues: Sequence[str]) -> None:
        """Mark the layouts of *queues* as possibly stale, so that they are read again before their next use."""
        for served in tuple(self._sets.values()):
            served.stale.update(served.queues.intersection(queues))

    def _mark_next_stale(self, served: Served) -> None:
        # In rotation and rarely: this finds changes without a number, such as one made by hand.
        now = time.monotonic()
        if now - self._read_at < READ_EVERY:
            return
        self._read_at = now
        name = next(served.rotation)
        layout = served.layouts.get(name)
        if layout is None or now - layout.read_at > self._interval:
            served.stale.add(name)

    def _read(self, served: Served) -> None:
        names = list(served.stale) if served.is_read else list(served.names)
        served.stale.difference_update(names)  # before the read, so that a change during the read is not lost
        try:
            found = self._layouts.read(names, skip_damaged=True)
        except BackendError as error:
            served.stale.update(names)
            if not isinstance(error, BackendUnavailable) or not served.layouts.keys() >= set(names):
                raise
            if should_log(str(error)):  # stale layouts are safe, and other servers may be available
                log.warning("a layout that may have changed cannot be read now: %s", error)
            return
        # For a damaged layout, the cached one stays in use. It is read each time until it is repaired.
        served.stale.update(name for name in names if name not in found)
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
        Make calls on served partitions, also on new ones. Return each call with its answer or error.

        Layout changes are read in the same round trip, so no call misses a version or queue that was added since.

        Args:
            served: The queues that are served.
            first: Returns the calls of the first round trip.
            ask_new: Returns the calls for new partitions, which are made in a further round trip.
        """
        results: list[tuple[Call, object]] = []
        known = served.by_tag
        calls = first()
        for _ in range(ROUNDS):
            change_commands = self._change_commands()
            answers = self._calls.run(calls, change_commands)
            results.extend(zip(calls, answers, strict=False))
            try:
                if change_commands:
                    self._follow(served, answers[-1])
            except BackendError:
                if not results:
                    raise
                return results  # the results must reach the caller; the next call detects the change again
            before, known = known, served.by_tag
            new = [one for tag, one in known.items() if tag not in before] if known is not before else []
            if not new:
                return results
            calls = ask_new(new)
        raise BackendUnavailable("the layout of a queue changes faster than it can be read")

    def _follow(self, served: Served, answer: object) -> None:
        """Read the layouts of the queues that changed, according to *answer*."""
        if isinstance(answer, BackendError):
            self._silent_until = time.monotonic() + SHARED_SILENCE
            raise answer
        last, changes = self._last, _changes_in(answer)
        changed = [name.decode(errors="replace") for name, number in changes if (name, number) != last]
        if not changes and last and last[1]:  # the store has lost data: read all layouts again
            self._reset_last_change()
        elif changed:
            self._mark_stale(changed)
        else:
            return
        if served.stale:
            self._read(served)
        if changes:  # after the read, so that it never includes a change that was not read
            self._last = changes[-1]

    def _reset_last_change(self) -> None:
        """Set the last change to that of the store, if it can be read. All layouts read before may be stale."""
        if time.monotonic() < self._silent_until:
            return
        command = Command(self._changes, (b"ZRANGE", self._changes, 0, 0, b"REV", b"WITHSCORES"))
        (answer,) = self._calls.run((), [command])
        if isinstance(answer, BackendError):
            self._silent_until = time.monotonic() + SHARED_SILENCE
            return
        self._last = (_changes_in(answer) or [(b"", 0.0)])[0]
        for served in tuple(self._sets.values()):
            served.stale.update(served.queues)

    def _change_commands(self) -> list[Command]:
        """Return the command that reads the changes from the last known one on, or nothing after a failure."""
        if self._last is None or time.monotonic() < self._silent_until:
            return []
        first = b"%.0f" % self._last[1]
        return [Command(self._changes, (b"ZRANGEBYSCORE", self._changes, first, b"+inf", b"WITHSCORES"))]


def _changes_in(answer: object) -> list[_Change]:
    flat = cast("Sequence[bytes] | Sequence[tuple[bytes, float]]", answer)
    if flat and not isinstance(flat[0], bytes):  # RESP3 returns pairs
        return [(name, float(score)) for name, score in cast("Sequence[tuple[bytes, float]]", flat)]
    words = cast("Sequence[bytes]", flat)
    return [(name, float(score)) for name, score in zip(words[::2], words[1::2], strict=True)]
