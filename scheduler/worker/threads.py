"""Threads of a run: their shared state, threads that repeat a duty, the handler pool, and the thread of `start()`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue

from scheduler.backend import Backend
from scheduler.config import WorkerConfig
from scheduler.logs import GuardedLogger
from scheduler.metrics import Metrics
from scheduler.worker.outage import LONGEST_BACK_OFF, BackOff, Outage, is_transient
from scheduler.worker.shutdown import Shutdown
from scheduler.worker.wake_event import WakeEvent


class Run:
    """
    State that the threads of one run share.

    wake_event: wakes the pump. woken: wakes the thread in `Lifecycle.work`. outage: tracks the calls of all threads.
    """

    def __init__(self, backend: Backend, config: WorkerConfig, metrics: Metrics, logger: GuardedLogger) -> None:
        self.backend = backend
        self.config = config
        self.metrics = metrics
        self.logger = logger
        self.wake_event = WakeEvent()
        self.woken = WakeEvent()
        self.shutdown = Shutdown(config, logger, self.woken.set)
        self.outage = Outage(config, metrics, logger, self.shutdown)


def _nothing() -> None:
    """Do nothing."""


@dataclass(eq=False, kw_only=True)
class Ticker:
    """
    Thread that calls *duty* until `stop()`. The duty returns the seconds until its next call.

    After a transient error of the store the duty is repeated with back-off, without a limit. Any other error is passed
    to *crashed* and ends the thread, unless *lasting* is set. The thread is a daemon: an exiting interpreter does not
    wait for it.
    """

    name: str
    duty: Callable[[], float]
    """Called on the thread."""
    crashed: Callable[[BaseException], None]
    """Called with an error that is not transient, on the thread or on the one that calls `stop()`."""
    enter: Callable[[], None] = _nothing
    """Called once, on the thread, before the first call of the duty."""
    interrupt: Callable[[], None] = _nothing
    """Called by `stop()`, for a duty that waits for something else than *wake_event*."""
    at_end: Callable[[], None] = _nothing
    """Called once, on the thread, after the last call of the duty. Must not raise."""
    wake_event: WakeEvent = field(default_factory=WakeEvent)
    """Ends the pause between two calls. Passed in if other objects set it too."""
    lasting: bool = False
    """Whether the thread continues after an error that is not transient."""
    longest_back_off: float = LONGEST_BACK_OFF
    """The longest pause after an error, in seconds."""

    def __post_init__(self) -> None:
        self._stopping = False
        self._back_off = BackOff(self.longest_back_off)
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    def start(self) -> None:
        """Start the thread. The duty is called at once."""
        self._thread.start()

    def set(self) -> None:
        """End the pause between two calls of the duty. Thread-safe."""
        self.wake_event.set()

    def stop(self) -> None:
        """Request that the thread ends after the current call of the duty. Thread-safe."""
        self._stopping = True
        self.wake_event.set()
        try:
            self.interrupt()
        except BaseException as error:  # noqa: BLE001 - the other threads must be stopped too
            self.crashed(error)

    def join(self, timeout: float) -> bool:
        """Wait up to *timeout* seconds for the thread to end. Return whether it has ended or was never started."""
        if self._thread.ident is None:
            return True
        self._thread.join(max(0.0, timeout))
        return not self._thread.is_alive()

    def _run(self) -> None:
        self.enter()
        self._repeat()
        self.at_end()

    def _repeat(self) -> None:
        while not self._stopping:
            try:
                pause = self.duty()
                self._back_off.reset()
                if pause > 0.0 and not self._stopping:
                    self.wake_event.wait(pause)
            except BaseException as error:  # noqa: BLE001 - no error may end a service thread silently
                if not is_transient(error):
                    self.crashed(error)
                    if not self.lasting:
                        return
                self._rest(self._back_off.next())

    def _rest(self, pause: float) -> None:
        # A wake-up does not shorten the back-off. Only a stop ends it.
        end = time.monotonic() + pause
        while not self._stopping and self.wake_event.wait(end - time.monotonic()):
            pass


@dataclass(eq=False)
class BoundedPool:
    """
    Pool of at most *concurrency* handler threads, each started when it is first needed.

    The pool wakes threads; it does not queue jobs. A woken thread runs *shift*, which takes jobs from the in-flight
    table until none is left. So a batch of short jobs wakes only a few threads. One thread calls `wake_threads`.

    Its threads are daemons. Python joins the threads of a `ThreadPoolExecutor` at exit, before the worker can be
    stopped: a worker with many jobs, or a stuck thread, would keep the interpreter alive for ever.
    """

    concurrency: int
    shift: Callable[[], None]
    crashed: Callable[[BaseException], None]
    enter: Callable[[], None]

    def __post_init__(self) -> None:
        self._threads: list[threading.Thread] = []
        self._idle = threading.Semaphore(0)  # waiting threads without a pending call
        self._calls: SimpleQueue[bool] = SimpleQueue()  # each wakes one thread; False ends it

    def wake_threads(self, threads: int) -> None:
        """Have *threads* more threads run a shift. The caller limits the number of running shifts to *concurrency*."""
        for _ in range(threads):
            if not self._idle.acquire(blocking=False) and len(self._threads) < self.concurrency:
                name = f"scheduler-job_{len(self._threads)}"
                thread = threading.Thread(target=self._work, name=name, daemon=True)
                thread.start()  # raises if the system refuses another thread
                self._threads.append(thread)
            self._calls.put(True)

    def close(self, *, wait: bool) -> None:
        """End the threads after their current shift. *wait*: wait for them, which takes for ever if one is stuck."""
        for _ in self._threads:
            self._calls.put(False)
        if wait:
            for thread in self._threads:
                thread.join()

    def _work(self) -> None:
        self.enter()
        while self._calls.get():
            try:
                self.shift()
            except BaseException as error:  # noqa: BLE001 - a bug of ours must not end the thread unreported
                self.crashed(error)
            self._idle.release()


class Background(threading.Thread):
    """Daemon thread that calls *work* once. error: the exception that it raised, None if there is none."""

    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__(name="scheduler-worker", daemon=True)
        self._work = work
        self.error: BaseException | None = None

    def run(self) -> None:
        """Call *work*, on the thread."""
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 - `Worker.__exit__` raises it
            self.error = error
