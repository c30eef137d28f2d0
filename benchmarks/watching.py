"""An idle worker whose handler tells when it started."""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Self

from benchmarks.benchmark_store import TYPE
from scheduler import JobContext, Worker, WorkerConfig
from scheduler.backend import Backend
from scheduler.jobs import Job

TIMEOUT = 60.0  # seconds without any start: reached only by a failure


class Watcher:
    """
    A worker in its default configuration on *queue*. *nanoseconds* is asked first thing in each handler.

    The block begins once it has run a job, so with every thread and connection in place.
    """

    def __init__(self, backend: Backend, queue: str, nanoseconds: Callable[[Job], int]) -> None:
        self._readings: SimpleQueue[int] = SimpleQueue()
        self._worker = Worker(backend, WorkerConfig(queues=(queue,)))

        def handler(job: Job, ctx: JobContext) -> None:  # noqa: ARG001 - the contract's form
            self._readings.put(nanoseconds(job))

        self._worker.handle(TYPE, handler)

    def seconds(self, count: int) -> list[float]:
        """The next *count* readings, waited for."""
        try:
            return [self._readings.get(timeout=TIMEOUT) / 1e9 for _ in range(count)]
        except Empty:
            raise RuntimeError(f"no job was started for {TIMEOUT:g} s") from None

    def __enter__(self) -> Self:
        self._worker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.stop()
