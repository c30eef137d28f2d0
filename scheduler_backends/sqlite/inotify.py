"""
Linux tells when a file is written: one inotify instance for all waiters of the process, since a user has 128 in all.

No thread of its own: each waiter polls the descriptor, and whoever is first reads the events and passes them on.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import threading
from collections.abc import Callable
from typing import Final

from scheduler.processes import PerProcess

_MODIFY: Final = 0x2
# Its mode or its number of links, by which a removal shows while it is open; or it is not there any more.
_ATTRIB, _DELETE_SELF, _MOVE_SELF = 0x4, 0x400, 0x800
_MASK: Final = _MODIFY | _ATTRIB | _DELETE_SELF | _MOVE_SELF
_EVERYBODY: Final = -1  # the watch of an event which says that the queue of events has overflowed
_EVENT: Final = struct.Struct("iIII")  # watch, mask, cookie, length of a name, which a file's event does not have
_SIZE: Final = 65_536


class Subscription:
    """One waiter's watch on one file. The flags are set by any waiter's thread, and cleared by the one that has it."""

    def __init__(self, instance: _Instance, watch: int, wake: Callable[[], None]) -> None:
        self.written = False
        self.lost = False  # the file may not be the one at its path any more: subscribe anew
        self.wake = wake
        self._instance = instance
        self._watch = watch

    @property
    def descriptor(self) -> int:
        """To be polled; can be read when there are events for any waiter of the process."""
        return self._instance.descriptor

    def take_events(self) -> None:
        """Read what has come in, set the flags of those it is for, and wake the others. `OSError` if that fails."""
        self._instance.take_events(self)

    def close(self) -> None:
        """Have no more events."""
        self._instance.remove(self, self._watch)


def subscribe(path: str, wake: Callable[[], None]) -> Subscription:
    """Watch the file at *path*; *wake* is called by other threads. `OSError` where that cannot be had."""
    return _instance.get(_Instance).add(path, wake)


class _Instance:
    """Open as long as there are subscriptions."""

    def __init__(self) -> None:
        self.descriptor = -1
        self._lock = threading.Lock()  # guards all of this, and the reading of events
        self._subscriptions: dict[int, list[Subscription]] = {}

    def add(self, path: str, wake: Callable[[], None]) -> Subscription:
        with self._lock:
            if self.descriptor < 0:
                self.descriptor = _call("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                watch = _call("inotify_add_watch", self.descriptor, os.fsencode(path), _MASK)
            except OSError:
                self._close_if_unused()
                raise
            subscription = Subscription(self, watch, wake)
            self._subscriptions.setdefault(watch, []).append(subscription)
            return subscription

    def remove(self, subscription: Subscription, watch: int) -> None:
        with self._lock:
            others = self._subscriptions.get(watch, [])
            if subscription in others:
                others.remove(subscription)
            if not others and self._subscriptions.pop(watch, None) is not None:
                with contextlib.suppress(OSError):  # it may have gone with its file
                    _call("inotify_rm_watch", self.descriptor, watch)
            self._close_if_unused()

    def take_events(self, reader: Subscription) -> None:
        with self._lock:
            try:
                events = os.read(self.descriptor, _SIZE)
            except BlockingIOError:  # another waiter was faster, and has set our flags
                return
            told: set[tuple[Subscription, bool]] = set()
            offset = 0
            while offset < len(events):
                watch, mask, _, length = _EVENT.unpack_from(events, offset)
                offset += _EVENT.size + length
                told.update((one, bool(mask & ~_MODIFY)) for one in self._of(watch))
            for subscription, lost in told:
                subscription.written = True
                subscription.lost |= lost
        for subscription in {one for one, _ in told} - {reader}:
            subscription.wake()

    def _of(self, watch: int) -> list[Subscription]:
        if watch == _EVERYBODY:
            return [one for group in self._subscriptions.values() for one in group]
        return self._subscriptions.get(watch, [])

    def _close_if_unused(self) -> None:
        if not self._subscriptions and self.descriptor >= 0:
            try:
                os.close(self.descriptor)
            finally:
                self.descriptor = -1


def _call(name: str, *arguments: object) -> int:
    try:
        function = getattr(ctypes.CDLL(None, use_errno=True), name)
    except (AttributeError, TypeError):  # another system than Linux
        raise OSError(f"{name} is not offered here") from None
    result = int(function(*arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


_instance: PerProcess[_Instance] = PerProcess()
