"""
Linux reports writes to a file: one inotify instance for all waiters of the process, since a user may have 128.

There is no thread for it. Each waiter polls the descriptor, and the first one reads the events for all of them.
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
# A change of its mode or of its links, which a removal causes while it is open; a removal or a move.
_ATTRIB, _DELETE_SELF, _MOVE_SELF = 0x4, 0x400, 0x800
_MASK: Final = _MODIFY | _ATTRIB | _DELETE_SELF | _MOVE_SELF
_EVERY_WATCH: Final = -1  # in the event that reports an overflow of the queue of events
_EVENT: Final = struct.Struct("iIII")  # watch, mask, cookie, length of the name, which events of a file do not have
_SIZE: Final = 65_536


class Subscription:
    """One waiter's watch on one file. Any waiter's thread sets the flags, and the one that has it clears them."""

    def __init__(self, instance: _Instance, watch: int, wake: Callable[[], None]) -> None:
        self.written = False
        self.lost = False  # another file may be at the path now: subscribe again
        self.watch = watch
        self.wake = wake
        self._instance = instance

    @property
    def descriptor(self) -> int:
        """Readable when there are events for any waiter of the process."""
        return self._instance.descriptor

    def take_events(self) -> None:
        """Read all events, set the flags of their subscriptions, and wake the other waiters. Raises `OSError`."""
        instance = self._instance
        with instance.lock:
            try:
                events = os.read(self.descriptor, _SIZE)
            except BlockingIOError:  # another waiter has read them, and has set the flags
                return
            notified: set[Subscription] = set()
            offset = 0
            while offset < len(events):
                watch, mask, _, length = _EVENT.unpack_from(events, offset)
                offset += _EVENT.size + length
                for one in instance.subscriptions.copy():
                    if watch in (one.watch, _EVERY_WATCH):
                        one.written = True
                        one.lost |= bool(mask & ~_MODIFY)
                        notified.add(one)
        for one in notified - {self}:
            one.wake()

    def close(self) -> None:
        """End the watch."""
        instance = self._instance
        with instance.lock:
            if self not in instance.subscriptions:
                return
            instance.subscriptions.discard(self)
            if self.watch not in {one.watch for one in instance.subscriptions.copy()}:
                with contextlib.suppress(OSError):  # it has ended with its file
                    _call("inotify_rm_watch", self.descriptor, self.watch)
            instance.close_if_unused()


def subscribe(path: str, wake: Callable[[], None]) -> Subscription:
    """Watch the file at *path*. Other threads call *wake*. Raises `OSError` where that is not possible."""
    return _instance.get(_Instance).add(path, wake)


class _Instance:
    """An inotify instance, open as long as there are subscriptions."""

    def __init__(self) -> None:
        self.descriptor = -1
        # Guards everything here, and the reading of events. Re-entrant for a signal handler that closes another waiter.
        self.lock = threading.RLock()
        self.subscriptions: set[Subscription] = set()

    def add(self, path: str, wake: Callable[[], None]) -> Subscription:
        with self.lock:
            if self.descriptor < 0:
                self.descriptor = _call("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                watch = _call("inotify_add_watch", self.descriptor, os.fsencode(path), _MASK)
            except OSError:
                self.close_if_unused()
                raise
            subscription = Subscription(self, watch, wake)
            self.subscriptions.add(subscription)
            return subscription

    def close_if_unused(self) -> None:
        if not self.subscriptions and self.descriptor >= 0:
            try:
                os.close(self.descriptor)
            finally:
                self.descriptor = -1


def _call(name: str, *arguments: object) -> int:
    try:
        function = getattr(ctypes.CDLL(None, use_errno=True), name)
    except (AttributeError, TypeError):  # another system than Linux
        raise OSError(f"{name} does not exist here") from None
    result = int(function(*arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


_instance: PerProcess[_Instance] = PerProcess()
