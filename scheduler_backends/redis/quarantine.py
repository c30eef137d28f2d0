"""Setting aside the jobs that a lease call has taken and cannot read."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.errors import BackendError
from scheduler_backends.redis.errors import log, should_log
from scheduler_backends.redis.keys import Partition
from scheduler_backends.redis.records import FORMAT, Unread
from scheduler_backends.redis.salvage import later_format, why_unreadable
from scheduler_backends.redis.scripts import QUARANTINE
from scheduler_backends.redis.store import Store

LATER = 30_000  # milliseconds until a job of a later format is ready again: a newer release may take it then


def set_aside(store: Store, partition: Partition, group: bytes, jobs: Sequence[Unread]) -> BackendError | None:
    """
    End the leases of *jobs* in *group*: those of a later format wait, the others are dead.

    No record and no history is written. Returns the error if that failed: the jobs are set aside after their leases
    have expired, and the other jobs of the lease call are not affected.
    """
    formats = [later_format(record) for _, record, _ in jobs]
    words = [
        word
        for (raw, _, _), later in zip(jobs, formats, strict=True)
        for word in (raw, b"%d" % LATER if later else b"")
    ]
    channel = store.keys.channel(partition.queue)
    try:
        store.calls.one(QUARANTINE, partition, store.calls.now(), channel, group, int(store.retention.dead > 0), *words)
    except BackendError as error:
        return error
    dead = [job for job, later in zip(jobs, formats, strict=True) if later is None]
    if dead:
        why = why_unreadable(*dead[0])
        log.warning("%r: %d jobs cannot be read and are dead, %r the first: %s", partition, len(dead), dead[0][0], why)
    for later in set(filter(None, formats)):
        if should_log(f"record format {later}"):
            log.warning(
                "%r: jobs of record format %d are left to a newer release of this library; this one reads %d",
                partition,
                later,
                FORMAT,
            )
    return None
