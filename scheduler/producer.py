"""The producer: it stores jobs."""

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
    """Options of `Producer.enqueue` and `Producer.new_job`. Without an option, or with None, the default applies."""

    queue: str | None
    """The queue to store the job in, else the config's default."""

    run_at: datetime | None
    """When to run, an aware datetime. A moment in the past is due now. Not together with *delay*."""

    delay: float | None
    """Seconds from the moment of storing."""

    max_retries: int | None
    """Retries after the first attempt; 0 = one attempt and no more. Else as the retry policy says, else the config."""

    timeout: float | None
    """Seconds that one attempt may take, else the config's default."""

    priority: Priority
    """Its place among the ready jobs of a partition. Not None."""

    id: str | None
    """Unique within the queue, else one is made."""

    idempotency_key: str | None
    """While a job with the same key is kept in the queue, no second one is stored. Not together with *id*."""

    metadata: Mapping[str, str] | None
    """Text by text, at most 8 KiB, not interpreted."""

    retry_policy: RetryPolicy | None
    """Delays between its attempts, else the config's."""


class Producer:
    """
    Stores jobs in *backend*. Any thread may use it, also after a fork.

    Args:
        backend: Where to store them.
        config: Defaults of its jobs. None = those of `ProducerConfig`.
        serializer: Encodes payloads. None = JSON.
        metrics: Receives what was enqueued. Its errors are logged and affect no enqueue.
        logger: None = the logger "scheduler.producer".

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
        chosen: dict[str, Any] = {**options}  # of any type: NewJob checks them
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
            if_exists: If a job with this id or idempotency key is kept already, "return" it with is_new False, or
                "raise" `DuplicateJob`, which carries it. It is not changed.
            connection: Store the job in the transaction of this database connection: it exists once that commits.
            options: See `JobOptions`.

        Raises:
            InvalidJob: An argument is invalid; nothing was stored.
            DuplicateJob: See *if_exists*.
            BackendUnavailable: As `enqueue_many`.
            NotSupported: The store cannot use a *connection*.

        """
        if if_exists not in ("return", "raise"):
            raise ConfigError("if_exists", "must be 'return' or 'raise'")
        (answer,) = self._store([self.new_job(type, payload, **options)], connection)
        if if_exists == "raise" and not answer.is_new:
            stored = answer.job
            raise DuplicateJob(f"queue {stored.queue!r} keeps job {stored.id!r} already, {stored.state}", stored)
        return answer

    def enqueue_many(self, jobs: Iterable[NewJob], *, connection: object = None) -> list[Enqueued]:
        """
        Store *jobs* and return one result for each, in order. All are checked before any is stored.

        Raises `BackendUnavailable` if the store cannot be reached. The error's `jobs` are those that were not
        acknowledged; `enqueue_many(error.jobs)` repeats them. No job is stored twice while the store keeps it; one that
        has succeeded meanwhile is stored anew unless retention keeps it. With a *connection* the error has no jobs:
        repeat the whole transaction.
        """
        if not isinstance(jobs, Iterable):
            raise InvalidJob("jobs", f"must be an iterable of NewJob, not {type(jobs).__name__}")
        return self._store([self._fitting(job) for job in jobs], connection)

    def get(self, queue: str, id: str) -> Job:
        """Return the stored job. Raises `JobNotFound` if there is none, also after retention deleted it."""
        for job in self._backend.get(queue, [id]).values():
            return job
        raise JobNotFound(f"queue {queue!r} keeps no job {id!r}; finished jobs are kept only as long as retention says")

    def _encoded(self, payload: object) -> bytes:
        if isinstance(payload, bytes):
            return payload
        try:
            return self._serializer.dumps(payload)
        except Exception as error:  # a serializer may raise anything for what it cannot encode
            raise InvalidJob("payload", f"cannot be encoded: {error}") from error

    def _fitting(self, job: NewJob) -> NewJob:
        if type(job) is not NewJob:  # a subclass may set fields around the checks
            raise InvalidJob("jobs", f"must be plain NewJob objects, as new_job() makes them, not {type(job).__name__}")
        size, most = len(job.payload), self._config.max_payload
        if size > most:
            raise InvalidJob("payload", f"must not exceed {most} bytes, has {size} (type {job.type!r}, id {job.id!r})")
        return job

    def _store(self, jobs: list[NewJob], connection: object) -> list[Enqueued]:
        store = self._backend.enqueue if connection is None else self._within(connection)
        answers: list[Enqueued] = []
        for start in range(0, len(jobs), MAX_BATCH):
            try:
                stored = store(jobs[start : start + MAX_BATCH])
            except BackendUnavailable as error:
                if connection is None:
                    error.jobs = tuple(jobs[start:])
                raise
            self._report(stored)
            answers += stored
        return answers

    def _within(self, connection: object) -> Callable[[Sequence[NewJob]], Sequence[Enqueued]]:
        if not isinstance(self._backend, TransactionalEnqueue):
            raise NotSupported(f"{type(self._backend).__name__} cannot enqueue on a caller's connection")
        return partial(self._backend.enqueue_with, connection)

    def _report(self, answers: Sequence[Enqueued]) -> None:
        for answer in answers:
            if self._metrics is not None:
                self._metrics.enqueued(answer.job, answer.is_new)
            if not answer.is_new and answer.job.state is JobState.DEAD:
                self._log.warning(
                    "Job %s of queue %s is dead and was not enqueued again; requeue or purge it first",
                    answer.job.id,
                    answer.job.queue,
                )
