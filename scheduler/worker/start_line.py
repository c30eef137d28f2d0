"""What a worker logs when it starts: who it is, and what it serves."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import scheduler
from scheduler.backend import Backend
from scheduler.config import WorkerConfig
from scheduler.logs import GuardedLogger, printable

_SHOWN = 20  # names of a list; a program may have hundreds


def log_start(logger: GuardedLogger, config: WorkerConfig, types: Sequence[str], backend: Backend) -> None:
    """One line. The store's own text about itself holds no password."""
    if not types:
        logger.warning("This worker has no handlers: every job will wait for another one")
    if not logger.isEnabledFor(logging.INFO):
        return  # to ask for the version takes longer than all the rest
    logger.info(
        "Worker %s started: queues %s; %d threads; job types %s; %r; version %s",
        printable(config.worker_id),
        _listed(config.queues),
        config.concurrency,
        _listed(types) or "none",
        backend,
        scheduler.__version__,
    )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(map(printable, names[:_SHOWN])) + more
