"""Log lines of a worker: its start, and failed or dead jobs."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Sequence
from types import TracebackType
from typing import Literal

import scheduler
from scheduler.backend import Backend
from scheduler.config import WorkerConfig
from scheduler.jobs import ErrorDetail, Job
from scheduler.logs import GuardedLogger, printable
from scheduler.worker.outcome import summary

ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]
_SHOWN = 20  # names of a list; a program may have hundreds
_LONGEST = 64 * 1024  # characters of a traceback in a log


def log_start(logger: GuardedLogger, config: WorkerConfig, types: Sequence[str], backend: Backend) -> None:
    """Log the start in one line: the worker's id, queues, threads, job types, store and version."""
    if not types:
        logger.warning("This worker has no handlers: it puts every job back for another worker")
    if not logger.isEnabledFor(logging.INFO):
        return  # looking up the version takes longer than everything else here
    logger.info(
        "Worker %s started: queues %s; %d threads; job types %s; %r; version %s",
        printable(config.worker_id),
        _listed(config.queues),
        config.concurrency,
        _listed(types) or "none",
        backend,  # its repr contains no password
        scheduler.__version__,
    )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(map(printable, names[:_SHOWN])) + more


def named(job: Job) -> str:
    """Return a job's id and type, for a log message."""
    return f"{printable(job.id)} ({printable(job.type)})"


def fields(job: Job) -> dict[str, object]:
    """Return the `extra` of every record about a job. The names are public: dashboards and alerts rely on them."""
    return {"job_id": job.id, "job_type": job.type, "queue": job.queue, "attempt": job.attempts}


class JobLog:
    """
    Log of failed and dead jobs.

    errors: "message" logs the class and message of an error and, if the job is dead, its traceback. "kind" logs only
    the class, since messages and tracebacks may quote the data of a job.
    """

    def __init__(self, logger: GuardedLogger, errors: Literal["message", "kind"]) -> None:
        self._logger = logger
        self._whole = errors == "message"

    def failed(self, job: Job, error: ErrorDetail, delay: float, raised: BaseException | None) -> None:
        """Log a failed attempt, and that the next one is due after *delay* seconds. *raised*: its exception, if any."""
        text = "Job %s failed (attempt %d of %d), next attempt in %.3g s: %s"
        shown = raised if self._logger.isEnabledFor(logging.DEBUG) else None
        self._log(logging.WARNING, text, job, delay, self._reason(error), raised=shown)

    def dead(self, job: Job, error: ErrorDetail, raised: BaseException | None) -> None:
        """Log that the job is dead."""
        self._log(logging.ERROR, "Job %s is dead (attempt %d of %d): %s", job, self._reason(error), raised=raised)

    def _log(self, level: int, text: str, job: Job, *more: object, raised: BaseException | None) -> None:
        arguments = named(job), job.attempts, job.max_retries + 1, *more
        self._logger.log(level, text, *arguments, extra=fields(job), exc_info=self._exc_info(raised))

    def result_dropped(self, job: Job, error: ErrorDetail) -> None:
        """Log that the job succeeded, but its result cannot be stored."""
        reason = self._reason(error)
        self._logger.warning("The result of job %s is dropped: %s", named(job), reason, extra=fields(job))

    def _reason(self, error: ErrorDetail) -> str:
        return printable(summary(error) if self._whole else error.kind)

    def _exc_info(self, raised: BaseException | None) -> ExcInfo | None:
        """Return *raised* for logging. None if log handlers could not write it and would drop the line."""
        if raised is None or not self._whole:
            return None
        try:
            # A tuple, because logging tests the truth value of a bare exception, which its class may define.
            found = type(raised), raised, raised.__traceback__
            text = "".join(traceback.format_exception(*found))
            text.encode()
        except BaseException:  # noqa: BLE001 - its __str__, __notes__ or a property may raise anything
            return None
        return found if len(text) <= _LONGEST else None
