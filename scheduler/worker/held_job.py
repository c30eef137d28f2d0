"""One job that a worker holds."""

from __future__ import annotations

import math

from scheduler.leases import Lease
from scheduler.worker.context import JobContext

LeaseKey = tuple[str, str, str]
CRASHES_KEPT_APART = 2


def is_suspect(lease: Lease) -> bool:
    """Return whether this job may be what kills its workers."""
    return lease.job.crashes >= CRASHES_KEPT_APART


class HeldJob:
    """
    A job in the in-flight table. Changed only under the table's lock.

    taken: when it was leased, by time.monotonic(). begun, context, thread: set when its handler starts. unsent: its
    outcome is known and not recorded yet. offered: the outcome was sent to the store at least once. given_up: its
    thread is stuck.
    """

    __slots__ = ("begun", "context", "given_up", "key", "lease", "offered", "taken", "thread", "unsent")

    def __init__(self, lease: Lease, taken: float) -> None:
        self.lease = lease
        self.key: LeaseKey = lease.key
        self.taken = taken
        self.context: JobContext | None = None
        self.thread = 0
        self.begun = 0.0
        self.unsent = self.offered = self.given_up = False

    @property
    def deadline(self) -> float:
        """When to cancel its handler, by time.monotonic(); inf = nothing is to be cancelled, or not any more."""
        context = self.context
        return math.inf if context is None or context.reason is not None else context.ends

    def gives_up_at(self, grace: float) -> float:
        """Return when to give up on its thread: *grace* seconds after both its cancellation and its deadline."""
        context = self.context
        # A handler that only lost its lease, or that is being stopped, keeps the rest of its time.
        if context is None or (cancelled := context.cancelled_at) is None:
            return math.inf
        return max(context.ends, cancelled) + grace
