"""Setting aside the jobs that a lease call has taken and cannot read."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.errors import BackendError
from scheduler.jobs import Job
from scheduler_backends.redis.codec import Unread, later_part
from scheduler_backends.redis.errors import log, should_log
from scheduler_backends.redis.keys import Partition
from scheduler_backends.redis.scripts import QUARANTINE
from scheduler_backends.redis.store import Store

LATER = 30_000  # milliseconds until a job of a later release is ready again: a newer worker may take it then


def set_aside(store: Store, partition: Partition, group: bytes, jobs: Sequence[Unread]) -> BackendError | None:
    """
    End the leases of *jobs* in *group*: those of a later release wait, the others are dead.

    No record and no history is written. Returns the error if that failed: the jobs are set aside after their leases
    have expired, and the other jobs of the lease call are not affected.
    """
    words: list[bytes] = []
    dead: list[Job] = []
    later: set[str] = set()
    for raw, record, job in jobs:
        part = later_part(record)
        words += (raw, b"%d" % LATER if part else b"")
        if part:
            later.add(part)
        else:
            dead.append(job)
    try:
        store.calls.one(
            QUARANTINE, partition, store.calls.now(), partition.channel, group, int(store.retention.dead > 0), *words
        )
    except BackendError as error:
        return error
    if dead:
        why = dead[0].errors[-1].message
        log.warning("%r: %d jobs cannot be read and are dead, %r the first: %s", partition, len(dead), dead[0].id, why)
    for part in later:
        if should_log(f"records with {part}"):
            message = "%r: jobs whose record has %s are left to the newer release of this library that knows it"
            log.warning(message, partition, part)
    return None
