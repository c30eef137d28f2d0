"""The handler threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue


class BoundedPool:
    """
    At most *concurrency* threads, each started when it is first needed. Threads are called in, never jobs put in line.

    A thread that was called in runs *shift*, which takes jobs from the in-flight table until none is left. So a batch
    of no-op jobs wakes few threads, and none for a job that another has taken. One thread calls them in.

    Daemon threads, and so no `ThreadPoolExecutor`: Python joins that one's threads at exit before anybody can tell the
    worker to stop, so that one with enough to do would keep the interpreter for ever, as would one that is stuck.
    """

    def __init__(self, concurrency: int, shift: Callable[[], None], enter: Callable[[], None]) -> None:
        self._concurrency = concurrency
        self._shift = shift
        self._enter = enter
        self._threads: list[threading.Thread] = []
        self._idle = threading.Semaphore(0)  # threads that wait and that no call is meant for
        self._calls: SimpleQueue[bool] = SimpleQueue()  # False = end

    def wake_threads(self, threads: int) -> None:
        """Have so many more threads run a shift. The caller keeps the number of running shifts within bounds."""
        for _ in range(threads):
            if not self._idle.acquire(blocking=False) and len(self._threads) < self._concurrency:
                name = f"scheduler-job_{len(self._threads)}"
                thread = threading.Thread(target=self._work, name=name, daemon=True)
                thread.start()  # raises where the system lets this process have no more
                self._threads.append(thread)
            self._calls.put(True)

    def close(self, *, wait: bool) -> None:
        """Let the threads end after the shift under way; *wait* for that, which is for ever where one is stuck."""
        for _ in self._threads:
            self._calls.put(False)
        if wait:
            for thread in self._threads:
                thread.join()

    def _work(self) -> None:
        self._enter()
        while self._calls.get():
            self._shift()
            self._idle.release()
