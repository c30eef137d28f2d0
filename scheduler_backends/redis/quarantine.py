"""Quarantine of jobs that a lease call has leased but cannot read."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.errors import BackendError
from scheduler.jobs import Job
from scheduler_backends.redis.codec import Unread, later_part
from scheduler_backends.redis.errors import log, should_log
from scheduler_backends.redis.keys import Partition
from scheduler_backends.redis.scripts import QUARANTINE
from scheduler_backends.redis.store import Store

LATER = 30_000  # milliseconds until a job of a later release is due again; a newer worker may then lease it


def quarantine_jobs(store: Store, partition: Partition, group: bytes, jobs: Sequence[Unread]) -> BackendError | None:
    """
    End the leases of *jobs*: those of a later release are delayed by `LATER`, the others become dead.

    Records and histories are not changed. If the call fails, its error is returned, not raised, since the other leases
    of the lease call are valid. The jobs are then leased and quarantined again after their leases have expired.

    Args:
        store: The store of the jobs.
        partition: The partition of the jobs.
        group: The lease group of the jobs.
        jobs: The jobs that could not be read.
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
        message = "%r: %d jobs cannot be read and are now dead, the first is %r: %s"
        log.warning(message, partition, len(dead), dead[0].id, why)
    for part in later:
        if should_log(f"records with {part}"):
            message = "%r: jobs whose record has %s wait for a worker with a later release of this library"
            log.warning(message, partition, part)
    return None
