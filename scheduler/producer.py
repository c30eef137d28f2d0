"""The producer: it stores jobs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Literal, cast

from scheduler.abilities import TransactionalEnqueue
from scheduler.backend import Backend
from scheduler.config import ProducerConfig
from scheduler.errors import BackendUnavailable, ConfigError, DuplicateJob, InvalidJob, JobNotFound, NotSupported
from scheduler.jobs import Job, NewJob, Priority
from scheduler.leases import Enqueued
from scheduler.limits import MAX_BATCH, check_kind
from scheduler.logs import GuardedLogger
from scheduler.metrics import Metrics, NopMetrics, guarded
from scheduler.retry import RetryPolicy, check_policy
from scheduler.serializers import JsonSerializer, Serializer
from scheduler.states import JobState

IfExists = Literal["return", "raise"]


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
        metrics = NopMetrics() if metrics is None else metrics
        given = {
            "backend": (backend, Backend),
            "config": (self._config, ProducerConfig),
            "serializer": (self._serializer, Serializer),
            "metrics": (metrics, Metrics),
        }
        for field, (value, kind) in given.items():
            check_kind(field, value, kind)
        logger = logging.getLogger(__name__) if logger is None else logger
        self._log = GuardedLogger(check_kind("logger", logger, logging.Logger, logging.LoggerAdapter))
        self._metrics = guarded(metrics, self._log)

    def new_job(
        self,
        type: str,
        payload: object = None,
        *,
        queue: str | None = None,
        run_at: datetime | None = None,
        delay: float | None = None,
        max_retries: int | None = None,
        timeout: float | None = None,
        priority: Priority = Priority.NORMAL,
        id: str | None = None,
        idempotency_key: str | None = None,
        metadata: Mapping[str, str] | None = None,
        retry_policy: RetryPolicy | None = None,
    ) -> NewJob:
        """
        Return a job with this producer's defaults, for `enqueue_many`. Nothing is stored.

        None as *queue*, *timeout* or *retry_policy* means the producer's default.

        Args:
            type: Name of the handler to run.
            payload: Anything that the serializer encodes; bytes are stored as they are.
            queue: The queue to store it in.
            run_at: When to run, an aware datetime. A moment in the past is due now. Not together with *delay*.
            delay: Seconds from the moment of storing.
            max_retries: Retries after the first attempt; 0 = one attempt and no more. None = as the retry policy says
                (*retry_policy*, else the config's), else the config's default.
            timeout: Seconds that one attempt may take.
            priority: Its place among the ready jobs of a partition.
            id: Unique within the queue. None = one is made.
            idempotency_key: While a job with the same key is kept in the queue, no second one is stored.
            metadata: Text by text, at most 8 KiB, not interpreted.
            retry_policy: Delays between its attempts.

        Raises:
            InvalidJob: An argument is invalid; `field` names it.

        """
        policy = self._config.retry_policy if retry_policy is None else retry_policy
        if max_retries is None and policy is not None:
            max_retries = check_policy(policy, InvalidJob).max_retries
        job = NewJob(
            type=type,
            payload=self._encoded(payload),
            queue=self._config.default_queue if queue is None else queue,
            run_at=run_at,
            delay=delay,
            max_retries=self._config.default_max_retries if max_retries is None else max_retries,
            timeout=self._config.default_timeout if timeout is None else timeout,
            priority=priority,
            id=cast("str", id),  # None = to be made
            idempotency_key=idempotency_key,
            metadata={} if metadata is None else metadata,
            retry_policy=policy,
        )
        return self._fitting(job)

    def enqueue(
        self,
        type: str,
        payload: object = None,
        *,
        queue: str | None = None,
        run_at: datetime | None = None,
        delay: float | None = None,
        max_retries: int | None = None,
        timeout: float | None = None,
        priority: Priority = Priority.NORMAL,
        id: str | None = None,
        idempotency_key: str | None = None,
        metadata: Mapping[str, str] | None = None,
        retry_policy: RetryPolicy | None = None,
        if_exists: IfExists = "return",
        connection: object = None,
    ) -> Enqueued:
        """
        Store one job and return it. The arguments up to *retry_policy* are those of `new_job`.

        Args:
            if_exists: If a job with this id or idempotency key is kept already, "return" it with is_new False, or
                "raise" `DuplicateJob`, which carries it. It is not changed.
            connection: Store the job in the transaction of this database connection: it exists once that commits.

        Raises:
            InvalidJob: An argument is invalid; nothing was stored.
            DuplicateJob: See *if_exists*.
            BackendUnavailable: As `enqueue_many`.
            NotSupported: The store cannot use a *connection*.

        """
        if if_exists not in ("return", "raise"):
            raise ConfigError("if_exists", "must be 'return' or 'raise'")
        job = self.new_job(
            type,
            payload,
            queue=queue,
            run_at=run_at,
            delay=delay,
            max_retries=max_retries,
            timeout=timeout,
            priority=priority,
            id=id,
            idempotency_key=idempotency_key,
            metadata=metadata,
            retry_policy=retry_policy,
        )
        (answer,) = self._store([job], connection)
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
            self._tell(stored)
            answers += stored
        return answers

    def _within(self, connection: object) -> Callable[[Sequence[NewJob]], Sequence[Enqueued]]:
        if not isinstance(self._backend, TransactionalEnqueue):
            raise NotSupported(f"{type(self._backend).__name__} cannot enqueue on a caller's connection")
        return partial(self._backend.enqueue_with, connection)

    def _tell(self, answers: Sequence[Enqueued]) -> None:
        for answer in answers:
            job = answer.job
            self._metrics.enqueued(job, answer.is_new)
            if job.state is JobState.DEAD and not answer.is_new:
                self._log.warning(
                    "Job %s of queue %s is dead and was not enqueued anew; requeue or purge it first", job.id, job.queue
                )
