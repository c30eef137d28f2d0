"""
Notification of writes to a file, by Linux' inotify.

All waiters of a process share one inotify instance, because a user may have only 128. No thread serves it: each waiter
polls its descriptor, and the first to wake reads the events for all.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import struct
import threading
from collections.abc import Callable
from typing import Final

from scheduler.processes import PerProcess
from scheduler.sleeping import Ownership

_MODIFY: Final = 0x2
# Removal of a file that is open changes its number of links (ATTRIB). DELETE_SELF: removal, MOVE_SELF: rename.
_ATTRIB, _DELETE_SELF, _MOVE_SELF = 0x4, 0x400, 0x800
_MASK: Final = _MODIFY | _ATTRIB | _DELETE_SELF | _MOVE_SELF
_EVERY_WATCH: Final = -1  # in the event that reports an overflow of the event queue
_EVENT: Final = struct.Struct("iIII")  # watch, mask, cookie, length of the name (0 for a file)
_SIZE: Final = 65_536


class Subscription:
    """Watch of one waiter on one file. Any waiter's thread sets the flags, and the owner's thread clears them."""

    def __init__(self, instance: _Instance, watch: int, wake: Callable[[], None]) -> None:
        self.written = False
        self.lost = False  # the file was removed or replaced: subscribe again
        self.wake = wake
        self._instance = instance
        self._watch = watch

    @property
    def descriptor(self) -> int:
        """Descriptor that is readable when there are events for any waiter of the process."""
        return self._instance.descriptor

    def take_events(self) -> None:
        """Read all events, set the flags of their subscriptions, and wake the other waiters. Raises `OSError`."""
        self._instance.take_events(self)

    def close(self) -> None:
        """End the watch."""
        self._instance.remove(self, self._watch)


def subscribe(path: str, wake: Callable[[], None]) -> Subscription:
    """Watch the file at *path*. *wake* may be called from other threads. Raises `OSError` if it cannot be watched."""
    return _instance.get(_Instance).add(path, wake)


class _Instance:
    """Inotify instance, open while there are subscriptions."""

    def __init__(self) -> None:
        self.descriptor = -1
        self._own: Ownership | None = None
        # Guards all fields, and the reading of events. Re-entrant: a signal handler may close another waiter.
        self._lock = threading.RLock()
        self._subscriptions: dict[int, list[Subscription]] = {}

    def add(self, path: str, wake: Callable[[], None]) -> Subscription:
        with self._lock:
            if not self._is_open():
                self._forget()
                self.descriptor = _call("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)
                self._own = Ownership(self.descriptor)
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
            if not others and self._subscriptions.pop(watch, None) is not None and self._is_open():
                with contextlib.suppress(OSError):  # the watch has ended with its file
                    _call("inotify_rm_watch", self.descriptor, watch)
            self._close_if_unused()

    def take_events(self, reader: Subscription) -> None:
        with self._lock:
            if not self._is_open():
                raise OSError(errno.EBADF, "the inotify descriptor was closed")
            try:
                events = os.read(self.descriptor, _SIZE)
            except BlockingIOError:  # another waiter has read them, and has set the flags
                return
            notified: set[tuple[Subscription, bool]] = set()
            offset = 0
            while offset < len(events):
                watch, mask, _, length = _EVENT.unpack_from(events, offset)
                offset += _EVENT.size + length
                notified.update((one, bool(mask & ~_MODIFY)) for one in self._of(watch))
            for subscription, lost in notified:
                subscription.written = True
                subscription.lost |= lost
        for subscription in {one for one, _ in notified} - {reader}:
            subscription.wake()

    def _of(self, watch: int) -> list[Subscription]:
        if watch == _EVERY_WATCH:
            return [one for group in self._subscriptions.values() for one in group]
        return list(self._subscriptions.get(watch, ()))

    def _close_if_unused(self) -> None:
        if not self._subscriptions and self.descriptor >= 0:
            try:
                if self._is_open():
                    os.close(self.descriptor)
            finally:
                self.descriptor = -1

    def _is_open(self) -> bool:
        return self.descriptor >= 0 and self._own is not None and self._own.is_mine()

    def _forget(self) -> None:
        """Drop the subscriptions of an instance whose descriptor was closed. Their waiters subscribe again."""
        for group in self._subscriptions.values():
            for subscription in group:
                subscription.lost = subscription.written = True
        self._subscriptions.clear()


def _call(name: str, *arguments: object) -> int:
    try:
        function = getattr(ctypes.CDLL(None, use_errno=True), name)
    except (AttributeError, TypeError):  # not Linux
        raise OSError(f"{name} does not exist here") from None
    result = int(function(*arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


_instance: PerProcess[_Instance] = PerProcess()
