"""A fork finds no half-done move and leaves no lock locked. The child has a copy, and logs that."""

from __future__ import annotations

import gc
import logging
import os
import signal
import threading
import traceback
import warnings
import weakref
from collections.abc import Callable

import pytest

from forking import FORKS, every_fork
from memory.inside import check_inside
from memory.moves import QUEUE, add, complete, lease
from scheduler.states import JobState
from scheduler.testing import ManualClock
from scheduler_backends.memory import MemoryBackend
from scheduler_backends.memory import store as memory_store

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
_TIMEOUT = 60  # seconds: reached only by a failure


def _in_child(work: Callable[[], object], fork: Callable[[], int] = os.fork) -> None:
    """Run *work* in a forked child, which ends by itself, and fail where it fails."""
    with warnings.catch_warnings():
        # Newer Pythons warn of forking while threads run, which is the point here.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = fork()
    if not child:
        signal.alarm(_TIMEOUT)  # nothing else ends a deadlock
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class _Busy:
    """A thread that is in some call on the backend at every moment."""

    def __init__(self, backend: MemoryBackend) -> None:
        self._backend = backend
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stop.is_set():
            add(self._backend, 20)
            complete(self._backend, lease(self._backend, 20))

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(_TIMEOUT)
        assert not self._thread.is_alive()


def test_a_child_forked_while_other_threads_are_at_work_can_use_its_copy() -> None:
    """Guarantee 27: no lock of another thread is left locked in it."""
    backend = MemoryBackend()
    add(backend, delay=3_600.0)

    def work() -> None:
        check_inside(backend)
        add(backend, 3, queue="child")
        assert len(lease(backend, 3, queues=["child"])) == 3
        assert backend.stats([QUEUE])[0].counts[JobState.SCHEDULED] == 1

    with _Busy(backend), _Busy(backend):
        for _ in range(20):
            _in_child(work)
    check_inside(backend)
    assert backend.stats(["child"])[0].counts[JobState.LEASED] == 0, "the child's jobs are its own"


def test_a_lock_held_at_a_fork_without_hooks_does_not_stop_the_child() -> None:
    """Nor does a half-done move: the child's next call repairs it."""
    backend = MemoryBackend()
    add(backend, 3)
    without_hooks = FORKS.get("without hooks")
    if without_hooks is None:
        pytest.skip("forks without hooks are known on Linux only")

    def work() -> None:
        add(backend, 3, queue="child")
        assert len(lease(backend, 6, queues=["child", QUEUE])) == 6
        check_inside(backend)

    with backend._store.lock:
        backend._store.begin()
        _in_child(work, without_hooks)
        backend._store.end()
    check_inside(backend)


def test_a_lock_that_another_thread_keeps_does_not_stop_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    """For example if a clock of the user hangs. The fork waits for a limited time, and the child has its own lock."""
    monkeypatch.setattr(memory_store, "_FORK_TIMEOUT", 0.05)
    backend = MemoryBackend()
    entered, leave = threading.Event(), threading.Event()

    class Hanging(ManualClock):
        def now(self):
            entered.set()
            leave.wait(_TIMEOUT)
            return super().now()

    backend.clock = Hanging()
    thread = threading.Thread(target=backend.ping)
    thread.start()
    try:
        assert entered.wait(_TIMEOUT)

        def work() -> None:
            backend.clock = None
            add(backend)

        _in_child(work)
    finally:
        leave.set()
        thread.join(_TIMEOUT)
    backend.clock = None
    add(backend)


@every_fork
def test_waiters_of_the_parent_work_in_both(fork: Callable[[], int]) -> None:
    backend = MemoryBackend()
    waiter = backend.waiter([QUEUE])
    waiting = threading.Thread(target=waiter.wait, args=(_TIMEOUT,))
    waiting.start()

    def work() -> None:
        add(backend)
        assert waiter.wait(_TIMEOUT)
        waiter.interrupt()
        assert not waiter.wait(_TIMEOUT)
        waiter.close()
        backend.close()

    _in_child(work, fork)
    assert waiting.is_alive(), "the child notifies no waiter of the parent"
    add(backend)
    waiting.join(_TIMEOUT)
    assert not waiting.is_alive()


@every_fork
def test_a_child_logs_once_that_it_has_a_copy(caplog: pytest.LogCaptureFixture, fork: Callable[[], int]) -> None:
    backend = MemoryBackend()

    def work() -> None:
        with caplog.at_level(logging.WARNING):
            add(backend)
            add(backend)
            lease(backend)
        assert [record.name for record in caplog.records] == ["scheduler_backends.memory.store"]

    _in_child(work, fork)
    add(backend)
    assert caplog.records == []


def test_a_backend_made_in_the_child_is_no_copy(caplog: pytest.LogCaptureFixture) -> None:
    def work() -> None:
        add(MemoryBackend())
        assert caplog.records == []

    _in_child(work)


def test_forked_children_make_other_tokens() -> None:
    """And so would never pass for the parent's workers, had they a store in common."""
    backend = MemoryBackend()
    add(backend, 2)
    (here,) = lease(backend)
    reader, writer = os.pipe()
    _in_child(lambda: os.write(writer, lease(backend)[0].token.encode()))
    assert os.read(reader, 100).decode()[:18] != here.token[:18]
    os.close(reader)
    os.close(writer)


def test_watching_for_forks_keeps_no_backend_alive() -> None:
    backend = MemoryBackend()
    store = weakref.ref(backend._store)
    del backend
    gc.collect()
    assert store() is None
