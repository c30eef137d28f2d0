"""The waiter on file descriptors, tested with a source made here."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from scheduler.abilities import WakeReason
from scheduler.errors import BackendClosed, BackendUnavailable, ConfigError
from scheduler.waiting import DescriptorWaiter, WaiterRegistry

WAIT_TIMEOUT = 30.0
LONG = 600.0  # seconds: no wait may last so long


class PipeSource:
    """A source that is notified by writing to a pipe."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.wake = wake
        self.readable, self.writable = os.pipe()
        os.set_blocking(self.readable, False)
        self.is_away = False
        self.looks = 0
        self.looked = threading.Event()
        self.closed = 0
        self._in_use = threading.Lock()
        self.overlaps = 0  # uses by two threads at once

    def look(self, now: float) -> WakeReason:
        with self._alone():
            return self._look()

    def _look(self) -> WakeReason:
        self.looks += 1
        self.looked.set()
        if self.is_away:
            raise BackendUnavailable("away")
        try:
            return WakeReason.JOBS_READY if os.read(self.readable, 100) else WakeReason.NONE
        except BlockingIOError:
            return WakeReason.NONE

    def next_look(self, now: float) -> tuple[float, Sequence[int]]:
        return LONG, (self.readable,)

    def notify(self) -> None:
        os.write(self.writable, b"x")

    def close(self) -> None:
        with self._alone():
            self.closed += 1

    @contextmanager
    def _alone(self) -> Iterator[None]:
        is_free = self._in_use.acquire(blocking=False)
        self.overlaps += not is_free
        try:
            yield
        finally:
            if is_free:
                self._in_use.release()


class Waiting:
    """A waiter, its sources, and threads that wait."""

    def __init__(self, rest: float = 0.0) -> None:
        self.sources: list[PipeSource] = []
        self.registry = WaiterRegistry()
        self.waiter = DescriptorWaiter(self.registry, ["a", "b"], self._make, rest=rest)

    @property
    def source(self) -> PipeSource:
        return self.sources[-1]

    def _make(self, wake: Callable[[], None]) -> PipeSource:
        self.sources.append(PipeSource(wake))
        return self.source

    def in_thread(self) -> Callable[[], WakeReason]:
        """Begin a wait in a thread; the function returns its result."""
        results: list[WakeReason] = []
        thread = threading.Thread(target=lambda: results.append(self.waiter.wait(LONG)), daemon=True)
        thread.start()
        assert self.source.looked.wait(WAIT_TIMEOUT)

        def result() -> WakeReason:
            thread.join(WAIT_TIMEOUT)
            assert not thread.is_alive()
            return results[0]

        return result


@pytest.fixture
def waiting() -> Iterator[Waiting]:
    waiting = Waiting()
    yield waiting
    waiting.registry.close()
    for source in waiting.sources:
        os.close(source.readable)
        os.close(source.writable)


def test_a_readable_descriptor_ends_a_wait(waiting):
    result = waiting.in_thread()
    waiting.source.notify()
    assert result() == WakeReason.JOBS_READY


@pytest.mark.parametrize("reason", [WakeReason.JOBS_READY, WakeReason.EARLIER_DUE_TIME, WakeReason.ANY])
def test_a_notification_in_the_process_wakes_the_waiters_of_the_queue(waiting, reason):
    waiting.registry.notify({"c"}, reason)
    assert waiting.waiter.wait(0.0) == WakeReason.NONE
    waiting.registry.notify({"b", "c"}, reason)  # between two waits
    assert waiting.waiter.wait(LONG) == reason
    result = waiting.in_thread()
    waiting.registry.notify({"a"}, reason)
    assert result() == reason


def test_interrupts_end_the_present_and_the_next_wait(waiting):
    result = waiting.in_thread()
    waiting.waiter.interrupt()
    assert result() == WakeReason.NONE
    waiting.waiter.interrupt()
    assert waiting.waiter.wait(LONG) == WakeReason.NONE


def test_a_source_may_ask_for_a_look(waiting):
    result = waiting.in_thread()
    waiting.source.notify()
    waiting.source.wake()
    assert result() == WakeReason.JOBS_READY


def test_the_first_wait_after_an_outage_returns_any(waiting):
    waiting.source.is_away = True
    for _ in range(2):
        with pytest.raises(BackendUnavailable):
            waiting.waiter.wait(LONG)
    assert waiting.source.closed == 2
    waiting.source.is_away = False
    assert waiting.waiter.wait(LONG) == WakeReason.ANY
    assert waiting.waiter.wait(0.0) == WakeReason.NONE


def test_no_source_is_closed_while_a_thread_uses_it(waiting):
    result = waiting.in_thread()
    waiting.waiter.close()
    assert result() == WakeReason.NONE
    assert waiting.source.closed
    assert not waiting.source.overlaps
    assert waiting.waiter.wait(LONG) == WakeReason.NONE
    waiting.waiter.close()


def test_a_waiter_that_nobody_waits_on_is_closed_at_once(waiting):
    waiting.waiter.close()
    assert waiting.source.closed == 1


def test_a_store_that_goes_away_while_its_waiter_is_closed_raises_nothing(waiting):
    result = waiting.in_thread()
    waiting.source.is_away = True
    waiting.waiter.close()
    assert result() == WakeReason.NONE


def test_a_closed_backend_ends_every_wait_and_refuses_others(waiting):
    result = waiting.in_thread()
    waiting.registry.close()
    assert result() == WakeReason.NONE
    with pytest.raises(BackendClosed):
        waiting.waiter.wait(LONG)


@pytest.mark.parametrize("action", ["interrupt", "close", "notify"])
def test_a_signal_handler_may_end_the_wait_of_its_own_thread(waiting, action):
    act = {
        "interrupt": waiting.waiter.interrupt,
        "close": waiting.waiter.close,
        "notify": lambda: waiting.registry.notify({"a"}),
    }[action]
    before = signal.signal(signal.SIGUSR1, lambda *_: act())
    try:
        main = threading.main_thread().ident

        def send() -> None:
            waiting.source.looked.wait(WAIT_TIMEOUT)
            signal.pthread_kill(main, signal.SIGUSR1)

        sender = threading.Thread(target=send)
        sender.start()
        assert waiting.waiter.wait(LONG) == (WakeReason.ANY if action == "notify" else WakeReason.NONE)
        sender.join(WAIT_TIMEOUT)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert bool(waiting.source.closed) == (action == "close")


def test_a_rest_lies_between_two_wakes():
    waiting = Waiting(rest=0.2)
    for _ in range(2):
        waiting.registry.notify({"a"})
        assert waiting.waiter.wait(LONG) == WakeReason.ANY
    waiting.registry.notify({"a"})
    assert waiting.waiter.wait(0.0) == WakeReason.NONE
    assert waiting.waiter.wait(LONG) == WakeReason.ANY
    waiting.waiter.close()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # this is what the test checks
@pytest.mark.parametrize("action", ["wait", "close", "close then wait"])
def test_a_child_of_a_fork_leaves_the_parent_s_source_alone(waiting, action):
    """Also while a thread of the parent waits, which holds the lock for ever in the child."""
    result = waiting.in_thread()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            (parents,) = waiting.sources
            if action == "wait":
                waiting.waiter.interrupt()
                assert waiting.waiter.wait(LONG) == WakeReason.NONE
                assert len(waiting.sources) == 2
                waiting.registry.notify({"a"})
                assert waiting.waiter.wait(LONG) == WakeReason.ANY
            else:
                waiting.waiter.close()
                waiting.waiter.close()
                assert waiting.waiter.wait(LONG) == WakeReason.NONE
                assert len(waiting.sources) == 1
            waiting.registry.close()
            assert not parents.closed
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    waiting.source.notify()
    assert result() == WakeReason.JOBS_READY


def test_wrong_timeouts_are_refused(waiting):
    for wrong in (-1.0, float("nan"), "1", None):
        with pytest.raises(ConfigError):
            waiting.waiter.wait(wrong)


def test_no_descriptors_left_is_an_error_of_ours(waiting, monkeypatch):
    def refuse() -> None:
        raise OSError("Too many open files")

    monkeypatch.setattr("scheduler.sleeping.socket.socketpair", refuse)
    with pytest.raises(BackendUnavailable, match="Too many"):
        DescriptorWaiter(waiting.registry, ["a"], PipeSource)
