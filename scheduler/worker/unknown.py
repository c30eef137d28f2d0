"""What becomes of a job whose type no handler here knows: a rolling deploy must lose nothing."""

from __future__ import annotations

import random
from datetime import timedelta

from scheduler.config import WorkerConfig
from scheduler.errors import UnknownJobType
from scheduler.jobs import ErrorDetail
from scheduler.leases import Failure, Lease
from scheduler.limits import MAX_DELAY
from scheduler.logs import GuardedLogger
from scheduler.worker.job_log import fields, named
from scheduler.worker.outcome import Outcome, Verdict, put_back

UNKNOWN_TYPE_WAITING = "UnknownTypeWaiting"
"""The kind of the error that marks when a worker first met the job; patience runs from it."""


def unknown_type(lease: Lease, config: WorkerConfig, logger: GuardedLogger) -> Outcome:
    """
    Put the job back, no attempt used: another worker may know the type, or this one after its restart.

    Dead only unknown_type_timeout after the first meeting, for a reason that names the type; a requeue starts afresh.
    """
    job, last = lease.job, lease.job.last_error
    # Jittered upwards: a worker takes such a job at most once per unknown_type_delay.
    wait = min(MAX_DELAY, config.unknown_type_delay * random.uniform(1.0, 1.2))
    if last is None or last.kind != UNKNOWN_TYPE_WAITING:
        logger.warning("Job %s waits: no handler for its type here", named(job), extra=fields(job))
        message = f"no handler for the type {job.type!r}; the job waits for a worker that has one"
        return put_back(lease, wait, ErrorDetail(kind=UNKNOWN_TYPE_WAITING, message=message))
    # Both moments are the store's, so that a wrong clock on this host shortens no patience.
    waited = lease.expires_at - timedelta(seconds=config.lease_duration) - last.at
    if waited.total_seconds() < config.unknown_type_timeout:
        return put_back(lease, wait)
    message = f"no worker had a handler for the type {job.type!r} within {config.unknown_type_timeout:g} s"
    logger.error("Job %s is dead: %s", named(job), message, extra=fields(job))
    detail = ErrorDetail(kind=UnknownJobType.__name__, message=message)
    return Outcome(Verdict.BURY, Failure(lease=lease, error=detail, counted=False))
