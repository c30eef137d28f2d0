"""The shop's jobs: their store and their handlers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import cast

from django.conf import settings
from django.db import close_old_connections, connections
from django.utils import timezone

from scheduler import Job, JobContext, Producer, Worker, WorkerConfig, backend_from_url
from scheduler.backend import Backend
from shop.models import Order

CONFIRM_ORDER = "order.confirm"


@cache
def backend() -> Backend:
    return backend_from_url(settings.SHOP_JOBS)


@cache
def producer() -> Producer:
    return Producer(backend())


def with_database(handler: Callable[[Job, JobContext], object]) -> Callable[[Job, JobContext], object]:
    """
    Give a handler a working database connection, and close it afterwards.

    Django closes connections only after requests, not after jobs. Without this, a connection that the server has closed
    would make every later job of its thread fail, and an open one would stay open as long as the thread lives.
    """

    @wraps(handler)
    def handle(job: Job, ctx: JobContext) -> object:
        close_old_connections()
        try:
            return handler(job, ctx)
        finally:
            connections.close_all()

    return handle


def new_worker() -> Worker:
    worker = Worker(backend(), WorkerConfig(concurrency=4))
    worker.handle(CONFIRM_ORDER, with_database(confirm_order))
    return worker


def confirm_order(job: Job, ctx: JobContext) -> None:  # noqa: ARG001 - the library calls it so
    """Confirm an order. A second run of the job finds it confirmed and changes nothing."""
    order = cast("dict[str, int]", ctx.data)["order"]
    Order.objects.filter(pk=order, confirmed_at=None).update(confirmed_at=timezone.now())
