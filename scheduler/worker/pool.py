"""The handler threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


class BoundedPool:
    """
    A `ThreadPoolExecutor` whose unbounded queue stays empty: threads are called in, never jobs put in line.

    A thread that was called in runs *shift*, which takes jobs from the in-flight table until none is left. So a batch
    of no-op jobs wakes few threads, and none for a job that another has taken.
    """

    def __init__(self, concurrency: int, shift: Callable[[], None], enter: Callable[[], None]) -> None:
        self._executor = ThreadPoolExecutor(concurrency, thread_name_prefix="scheduler-job", initializer=enter)
        self._shift = shift

    def call_in(self, threads: int) -> None:
        """Have so many more threads run a shift. The caller keeps the number of running shifts within bounds."""
        for _ in range(threads):
            self._executor.submit(self._shift)

    def close(self, *, wait: bool) -> None:
        """Take no more calls; *wait* for the threads to end, which is for ever where one is stuck."""
        self._executor.shutdown(wait=wait, cancel_futures=True)
