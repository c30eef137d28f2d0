"""Acme's queues, jobs and conventions."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cache
from typing import Any, ClassVar, TypeVar, cast

from scheduler import Job, JobContext, Priority, Producer, RetryPolicy, Worker, WorkerConfig, backend_from_url
from scheduler.backend import Backend


class Queue(StrEnum):
    """All of Acme's queues."""

    MAIL = "acme.mail"
    STOCK = "acme.stock"


@dataclass(frozen=True, kw_only=True)
class Order:
    """The payload of a job. A subclass defines its job type and queue."""

    TYPE: ClassVar[str]
    QUEUE: ClassVar[Queue]
    PRIORITY: ClassVar[Priority] = Priority.NORMAL


@dataclass(frozen=True, kw_only=True)
class InvoiceMail(Order):
    """Mail an invoice to a customer."""

    TYPE = "mail.invoice"
    QUEUE = Queue.MAIL
    PRIORITY = Priority.HIGH
    customer: int
    invoice: int


@dataclass(frozen=True, kw_only=True)
class StockCount(Order):
    """Count the stock in a room."""

    TYPE = "stock.count"
    QUEUE = Queue.STOCK
    room: str


AnyOrder = TypeVar("AnyOrder", bound=Order)


@cache
def _backend() -> Backend:
    return backend_from_url(os.environ.get("ACME_JOBS", "sqlite:///acme.db"))


@cache
def _producer() -> Producer:
    return Producer(_backend())


def submit(order: Order, *, delay: float | None = None, request: str = "") -> str:
    """Enqueue *order*, due in *delay* seconds, and return the id of its job. request: its origin, for the logs."""
    asked_by = getpass.getuser()
    return (
        _producer()
        .enqueue(
            order.TYPE,
            asdict(order),
            queue=order.QUEUE,
            priority=order.PRIORITY,
            delay=delay,
            retry_policy=RetryPolicy.durable(),
            metadata={"asked_by": asked_by, "request": request},
        )
        .job.id
    )


def new_worker(*queues: Queue, threads: int = 8) -> Worker:
    """Return a worker with Acme's usual configuration, for *queues* or all queues."""
    return Worker(_backend(), WorkerConfig(queues=queues or tuple(Queue), concurrency=threads))


def handles(worker: Worker, kind: type[AnyOrder]) -> Callable[[Callable[[AnyOrder], None]], Callable[[AnyOrder], None]]:
    """Decorate the function that handles orders of *kind*. Its argument is the order, not a job and a context."""

    def register(function: Callable[[AnyOrder], None]) -> Callable[[AnyOrder], None]:
        def handler(job: Job, ctx: JobContext) -> None:  # noqa: ARG001 - the library calls it so
            function(kind(**cast("dict[str, Any]", ctx.data)))  # with a missing or unknown field, the attempt fails

        worker.handle(kind.TYPE, handler)
        return function

    return register
