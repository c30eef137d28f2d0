"""Leases, kept by lease call: one expiry a group of jobs, however many they are. A partial renewal splits a group."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from datetime import datetime
from itertools import chain

from scheduler.clock import later
from scheduler_backends.memory.stored_job import StoredJob
from scheduler_backends.memory.timetables import LATEST, DeadlineHeap


class LeaseBatch:
    """The jobs of one queue that one lease call holds. `listed_at`: its moment in the timetable, never after expiry."""

    __slots__ = ("duration", "entry_id", "expires_at", "listed_at", "rows", "token", "worker_id")

    def __init__(self, token: str, worker_id: str) -> None:
        self.token = token
        self.worker_id = worker_id
        self.rows: dict[str, StoredJob] = {}
        self.expires_at = self.listed_at = LATEST
        self.duration = 0.0
        self.entry_id = 0


class LeaseTable:
    """All groups of one queue, by token. A group without jobs is gone."""

    __slots__ = ("_expiries", "groups")

    def __init__(self) -> None:
        self.groups: dict[str, list[LeaseBatch]] = {}
        self._expiries: DeadlineHeap[LeaseBatch] = DeadlineHeap()

    def held(self, token: str) -> list[LeaseBatch]:
        """The groups of a lease call, none where it holds nothing."""
        return self.groups.get(token, [])

    def open(self, token: str, worker_id: str, duration: float, now: datetime) -> LeaseBatch:
        """A new group, which the caller fills at once."""
        group = LeaseBatch(token, worker_id)
        self.groups.setdefault(token, []).append(group)
        self.extend(group, duration, now)
        return group

    def renew(self, group: LeaseBatch, named: AbstractSet[str], duration: float, now: datetime) -> None:
        """Extend *group* for the rows that are *named*; the others keep their expiry in a group of their own."""
        left = [row for row in group.rows.values() if row.id not in named] if len(named) < len(group.rows) else []
        if left:
            apart = LeaseBatch(group.token, group.worker_id)
            apart.expires_at, apart.duration = group.expires_at, group.duration
            self.groups[group.token].append(apart)
            self._list(apart)
            for row in left:
                row.group = apart
                apart.rows[row.id] = row
                del group.rows[row.id]
        self.extend(group, duration, now)

    def extend(self, group: LeaseBatch, duration: float, now: datetime) -> None:
        """
        Let *group* expire *duration* seconds from now.

        A later expiry is not entered in the timetable before the earlier one comes up there: renewals leave no trace.
        """
        group.duration = duration
        group.expires_at = expires_at = later(now, duration)
        if group.entry_id:
            if expires_at >= group.listed_at:
                return
            self._expiries.withdraw(group)
        self._list(group)

    def _list(self, group: LeaseBatch) -> None:
        group.listed_at = group.expires_at
        self._expiries.add(group.listed_at, group)

    def restore(self, group: LeaseBatch) -> None:
        """Begin *group* anew, without rows, in this book; its rows then come one by one."""
        known = self.groups.setdefault(group.token, [])
        if group not in known:
            known.append(group)
            group.rows = {}
            self._list(group)

    def let_go(self, row: StoredJob) -> None:
        """*row* is held no more."""
        group, row.group = row.group, None
        if group is None:
            return
        del group.rows[row.id]
        if not group.rows:
            self.groups[group.token].remove(group)
            if not self.groups[group.token]:
                del self.groups[group.token]
            self._expiries.withdraw(group)

    def expired(self, now: datetime) -> list[StoredJob]:
        """The rows of the group that expires first, none where its time has not come."""
        group = self._first()
        return [] if group is None or group.expires_at > now else list(group.rows.values())

    def next_expiry(self) -> datetime | None:
        """When the next group expires, None where nothing is held."""
        group = self._first()
        return None if group is None else group.expires_at

    def _first(self) -> LeaseBatch | None:
        while (entry := self._expiries.first()) is not None:
            moment, group = entry
            if group.expires_at <= moment:
                return group
            self._expiries.withdraw(group)  # renewed since it was listed
            self._list(group)
        return None

    def clock_went_back(self, now: datetime) -> None:
        """Leave no group more time than it asked for: a dead holder's jobs would wait for the old time to return."""
        for group in chain.from_iterable(self.groups.values()):
            if group.expires_at > later(now, group.duration):
                self.extend(group, group.duration, now)
