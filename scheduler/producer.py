"""The producer, which stores jobs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Literal, TypedDict, Unpack

from scheduler.abilities import TransactionalEnqueue
from scheduler.backend import Backend
from scheduler.config import ProducerConfig
from scheduler.errors import BackendUnavailable, ConfigError, DuplicateJob, InvalidJob, JobNotFound, NotSupported
from scheduler.jobs import Job, NewJob, Priority
from scheduler.leases import Enqueued
from scheduler.limits import MAX_BATCH, check_kind
from scheduler.logs import GuardedLogger
from scheduler.metrics import Metrics, guarded
from scheduler.retry import RetryPolicy
from scheduler.serializers import JsonSerializer, Serializer
from scheduler.states import JobState

__all__ = ["JobOptions", "Producer"]

IfExists = Literal["return", "raise"]


class JobOptions(TypedDict, total=False):
    """Options of `Producer.enqueue` and `Producer.new_job`. An option that is missing or None has its default."""

    queue: str | None
    """Queue to store the job in. Default: the config's."""

    run_at: datetime | None
    """When to run, as an aware datetime. A time in the past is due now. Not together with *delay*."""

    delay: float | None
    """Seconds until the job is due, counted from storing. Not together with *run_at*."""

    max_retries: int | None
    """Retries after the first attempt; 0 = a single attempt. Default: the retry policy's, or else the config's."""

    timeout: float | None
    """Seconds that one attempt may take. Default: the config's."""

    priority: Priority
    """Order among the ready jobs of a partition. Default: NORMAL. Must not be None."""

    id: str | None
    """Unique within the queue. Default: a new UUIDv7."""

    idempotency_key: str | None
    """While the queue keeps a job with the same key, no second one is stored. Not together with *id*."""

    metadata: Mapping[str, str] | None
    """Maps text to text, at most 8 KiB in total. Stored with the job and not interpreted."""

    retry_policy: RetryPolicy | None
    """Delays between attempts. Default: the config's."""


class Producer:
    """
    Stores jobs in *backend*. Any thread may use it, also after a fork.

    Args:
        backend: The store.
        config: Defaults for the jobs. None = those of `ProducerConfig`.
        serializer: Encodes payloads. None = JSON.
        metrics: Its hook `enqueued` is called for each job. Exceptions of the hook are logged and dropped.
        logger: Receives warnings. None = the logger "scheduler.producer".

    """

    def __init__(
        self,
        backend: Backend,
        config: ProducerConfig | None = None,
        *,
        serializer: Serializer | None = None,
        metrics: Metrics | None = None,
        logger: logging.Logger | None = None,
    ) -> None:
        self._backend = backend
        self._config = ProducerConfig() if config is None else config
        self._serializer = JsonSerializer() if serializer is None else serializer
        check_kind("backend", backend, Backend)
        check_kind("config", self._config, ProducerConfig)
        check_kind("serializer", self._serializer, Serializer)
        logger = logging.getLogger(__name__) if logger is None else logger
        self._log = GuardedLogger(check_kind("logger", logger, logging.Logger, logging.LoggerAdapter))
        self._metrics = None if metrics is None else guarded(check_kind("metrics", metrics, Metrics), self._log)
        self._defaults: tuple[tuple[str, object], ...] = (
            ("queue", self._config.default_queue),
            ("timeout", self._config.default_timeout),
            ("retry_policy", self._config.retry_policy),
            ("metadata", {}),
        )

    def new_job(self, type: str, payload: object = None, **options: Unpack[JobOptions]) -> NewJob:
        """
        Return a job with this producer's defaults, for `enqueue_many`. Nothing is stored.

        Args:
            type: Name of the handler to run.
            payload: Anything that the serializer encodes; bytes are stored as they are.
            options: See `JobOptions`.

        Raises:
            InvalidJob: An argument is invalid; `field` names it.

        """
        chosen: dict[str, Any] = {**options}  # values of any type, since NewJob checks them
        for name, default in self._defaults:
            if chosen.get(name) is None:
                chosen[name] = default
        if chosen.get("max_retries") is None:
            retries = getattr(chosen["retry_policy"], "max_retries", None)
            chosen["max_retries"] = self._config.default_max_retries if retries is None else retries
        return self._fitting(NewJob(type=type, payload=self._encoded(payload), **chosen))

    def enqueue(
        self,
        type: str,
        payload: object = None,
        *,
        if_exists: IfExists = "return",
        connection: object = None,
        **options: Unpack[JobOptions],
    ) -> Enqueued:
        """
        Store one job and return it.

        Args:
            type: Name of the handler to run.
            payload: Anything that the serializer encodes; bytes are stored as they are.
            if_exists: What to do if the queue keeps a job with this id or idempotency key: "return" that job with
                is_new False, or "raise" `DuplicateJob`, whose `job` it is. The stored job is not changed.
            connection: A database connection. The job is stored in its transaction and exists once that commits.
            options: See `JobOptions`.

        Raises:
            InvalidJob: An argument is invalid; nothing was stored.
            DuplicateJob: See *if_exists*.
            BackendUnavailable: The store cannot be reached; see `enqueue_many`.
            NotSupported: The store cannot use a *connection*.

        """
        if if_exists not in ("return", "raise"):
            raise ConfigError("if_exists", "must be 'return' or 'raise'")
        (result,) = self._store([self.new_job(type, payload, **options)], connection)
        if if_exists == "raise" and not result.is_new:
            stored = result.job
            raise DuplicateJob(f"queue {stored.queue!r} already has job {stored.id!r}, {stored.state}", stored)
        return result

    def enqueue_many(self, jobs: Iterable[NewJob], *, connection: object = None) -> list[Enqueued]:
        """
        Store *jobs* and return one result for each, in order. All are checked before any is stored.

        Raises `BackendUnavailable` if the store cannot be reached. The error's `jobs` are those that were not
        acknowledged; `enqueue_many(error.jobs)` repeats them. No job is stored twice while the store keeps it. A job
        that has succeeded meanwhile is stored again if retention does not keep it. With a *connection* the error has
        no jobs: repeat the whole transaction.
        """
        if not isinstance(jobs, Iterable):
            raise InvalidJob("jobs", f"must be an iterable of NewJob, not {type(jobs).__name__}")
        return self._store([self._fitting(job) for job in jobs], connection)

    def get(self, queue: str, id: str) -> Job:
        """Return the stored job. Raises `JobNotFound` if there is none, also after its retention has ended."""
        for job in self._backend.get(queue, [id]).values():
            return job
        raise JobNotFound(f"queue {queue!r} has no job {id!r}; finished jobs are kept only as long as retention says")

    def _encoded(self, payload: object) -> bytes:
        if isinstance(payload, bytes):
            return payload
        try:
            return self._serializer.dumps(payload)
        except Exception as error:  # a serializer may raise any error for a value that it cannot encode
            raise InvalidJob("payload", f"cannot be encoded: {error}") from error

    def _fitting(self, job: NewJob) -> NewJob:
        if type(job) is not NewJob:  # a subclass may bypass the checks
            raise InvalidJob("jobs", f"must be plain NewJob objects, as new_job() makes them, not {type(job).__name__}")
        size, most = len(job.payload), self._config.max_payload
        if size > most:
            raise InvalidJob("payload", f"must not exceed {most} bytes, has {size} (type {job.type!r}, id {job.id!r})")
        return job

    def _store(self, jobs: list[NewJob], connection: object) -> list[Enqueued]:
        store = self._backend.enqueue if connection is None else self._within(connection)
        results: list[Enqueued] = []
        for start in range(0, len(jobs), MAX_BATCH):
            try:
                stored = store(jobs[start : start + MAX_BATCH])
            except BackendUnavailable as error:
                if connection is None:
                    error.jobs = tuple(jobs[start:])
                raise
            self._report(stored)
            results += stored
        return results

    def _within(self, connection: object) -> Callable[[Sequence[NewJob]], Sequence[Enqueued]]:
        if not isinstance(self._backend, TransactionalEnqueue):
            raise NotSupported(f"{type(self._backend).__name__} cannot enqueue on a caller's connection")
        return partial(self._backend.enqueue_with, connection)

    def _report(self, results: Sequence[Enqueued]) -> None:
        for result in results:
            if self._metrics is not None:
                self._metrics.enqueued(result.job, result.is_new)
            if not result.is_new and result.job.state is JobState.DEAD:
                self._log.warning(
                    "Job %s of queue %s is dead and was not enqueued again; requeue or purge it first",
                    result.job.id,
                    result.job.queue,
                )
