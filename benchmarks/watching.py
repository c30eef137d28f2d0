"""Idle worker whose handler reports the time of its start."""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Self

from benchmarks.benchmark_store import TYPE
from scheduler import JobContext, Worker, WorkerConfig
from scheduler.backend import Backend
from scheduler.jobs import Job

TIMEOUT = 60.0  # seconds without any start; reached only in a failure


class Watcher:
    """Worker with the default configuration on *queue*. Its handler records what *nanoseconds* returns for the job."""

    def __init__(self, backend: Backend, queue: str, nanoseconds: Callable[[Job], int]) -> None:
        self._readings: SimpleQueue[int] = SimpleQueue()
        self._worker = Worker(backend, WorkerConfig(queues=(queue,)))

        def handler(job: Job, ctx: JobContext) -> None:  # noqa: ARG001 - the signature of a handler
            self._readings.put(nanoseconds(job))

        self._worker.handle(TYPE, handler)

    def seconds(self, count: int) -> list[float]:
        """Wait for the next *count* readings, and return them in seconds."""
        try:
            return [self._readings.get(timeout=TIMEOUT) / 1e9 for _ in range(count)]
        except Empty:
            raise RuntimeError(f"no job was started for {TIMEOUT:g} s") from None

    def __enter__(self) -> Self:
        self._worker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.stop()
