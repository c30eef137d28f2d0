"""The threads of a run: what they share, those that repeat one duty, the handlers' pool, and the one behind start()."""

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
    What the threads of one run share.

    wake_event: the pump's. woken: that of the thread in `Lifecycle.work`. outage: how the calls of all threads go.
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
    A thread that calls *duty*, which returns the seconds until its next call, until `stop()`.

    While the store is away the duty is repeated, with back-off, without an end. Any other error is a bug: it is passed
    to *crashed* and ends the thread, unless *lasting*, which goes on for as long as it is needed. The thread is a
    daemon: an exiting interpreter does not wait for it.
    """

    name: str
    duty: Callable[[], float]
    """Called on the thread."""
    crashed: Callable[[BaseException], None]
    """Called on the thread, or on the one that calls `stop()`, with an error that is no passing failure."""
    enter: Callable[[], None] = _nothing
    """Called once, on the thread, before the first turn."""
    interrupt: Callable[[], None] = _nothing
    """Called by `stop()`, to end a duty that waits elsewhere."""
    at_end: Callable[[], None] = _nothing
    """Called once, on the thread, after the last turn. Must not raise."""
    wake_event: WakeEvent = field(default_factory=WakeEvent)
    """Ends a pause, as `set()` does; given where the duty's own module sets it."""
    lasting: bool = False
    """Whether the thread goes on after an error."""
    longest_back_off: float = LONGEST_BACK_OFF
    """In seconds."""

    def __post_init__(self) -> None:
        self._stopping = False
        self._back_off = BackOff(self.longest_back_off)
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    def start(self) -> None:
        """Start the thread; the first turn comes at once."""
        self._thread.start()

    def set(self) -> None:
        """Have the next turn now. Any thread."""
        self.wake_event.set()

    def stop(self) -> None:
        """Ask the thread to end after the turn under way. Any thread."""
        self._stopping = True
        self.wake_event.set()
        try:
            self.interrupt()
        except BaseException as error:  # noqa: BLE001 - the other threads are to be stopped as well
            self.crashed(error)

    def join(self, timeout: float) -> bool:
        """Wait for the end up to *timeout* seconds; True if it has come. A thread never started counts as ended."""
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
            except BaseException as error:  # noqa: BLE001 - a service thread must not vanish, whatever was raised
                if not is_transient(error):
                    self.crashed(error)
                    if not self.lasting:
                        return
                self._rest(self._back_off.next())

    def _rest(self, pause: float) -> None:
        # A store that is away is not asked sooner because of a wake-up. Only a stop ends the rest.
        end = time.monotonic() + pause
        while not self._stopping and self.wake_event.wait(end - time.monotonic()):
            pass


@dataclass(eq=False)
class BoundedPool:
    """
    At most *concurrency* handler threads, each started when it is first needed. It wakes threads; it queues no jobs.

    A thread that is woken runs *shift*, which takes jobs from the in-flight table until none is left. So a batch of
    no-op jobs wakes few threads, and none for a job that another thread has taken. One thread wakes them.

    Daemon threads, and so no `ThreadPoolExecutor`: Python joins that one's threads at exit before anybody can stop the
    worker, so that a worker with enough to do would keep the interpreter for ever, as would a stuck thread.
    """

    concurrency: int
    shift: Callable[[], None]
    crashed: Callable[[BaseException], None]
    enter: Callable[[], None]

    def __post_init__(self) -> None:
        self._threads: list[threading.Thread] = []
        self._idle = threading.Semaphore(0)  # threads that wait and that no call is meant for
        self._calls: SimpleQueue[bool] = SimpleQueue()  # False = end

    def wake_threads(self, threads: int) -> None:
        """Have so many more threads run a shift. The caller keeps the number of running shifts within bounds."""
        for _ in range(threads):
            if not self._idle.acquire(blocking=False) and len(self._threads) < self.concurrency:
                name = f"scheduler-job_{len(self._threads)}"
                thread = threading.Thread(target=self._work, name=name, daemon=True)
                thread.start()  # raises if the system allows this process no more
                self._threads.append(thread)
            self._calls.put(True)

    def close(self, *, wait: bool) -> None:
        """Let the threads end after the shift under way; *wait* for that, which is for ever if one is stuck."""
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
    """Calls *work* once, on a daemon thread. error: what it raised."""

    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__(name="scheduler-worker", daemon=True)
        self._work = work
        self.error: BaseException | None = None

    def run(self) -> None:
        """Call the work, on the thread."""
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 - raised where somebody sees it
            self.error = error
