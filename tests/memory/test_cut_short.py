"""A Ctrl-C, or an exception raised in its thread from outside, may end a call between any two of its lines."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from types import FrameType

import pytest

import scheduler_backends.memory
from memory.inside import check_inside
from memory.moves import QUEUE, add, bury, complete, lease, new, retry
from scheduler.leases import Failure
from scheduler.queues import Retention
from scheduler.states import JobState
from scheduler.testing import ManualClock
from scheduler_backends.memory import MemoryBackend

# In the long run only: very rarely CPython 3.11 hangs after a trace function has raised an exception, and no time
# limit ends that test.
pytestmark = pytest.mark.long

_PACKAGE = str(Path(scheduler_backends.memory.__file__).parent)
_KEEP = Retention(succeeded=100.0, cancelled=100.0, dead=100.0)


class _CutShortError(Exception):
    """Stands for KeyboardInterrupt, which pytest would take for the user's."""


class _Cutter:
    """
    Raises once, at the *line*-th line of the package. `done` says that the call had fewer.

    A frame's line counts once. Where a with statement is left, its line comes a second time, and the interpreter lets
    nothing in there between the end of the block and the exit; and what a trace function raises in a jump back skips
    that exit (Python 3.13).
    """

    def __init__(self, line: int) -> None:
        self._left = line
        self._seen: set[tuple[FrameType, int]] = set()

    @property
    def done(self) -> bool:
        return self._left > 0

    def __enter__(self) -> None:
        self._before = sys.gettrace()
        sys.settrace(self._trace)

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _trace(self, frame: FrameType, event: str, _: object) -> Callable[..., object] | None:
        if not frame.f_code.co_filename.startswith(_PACKAGE):
            return None
        line = (frame, frame.f_lineno)
        if event == "line" and line not in self._seen:
            self._seen.add(line)
            self._left -= 1
            if self._left == 0:
                raise _CutShortError
        return self._trace


class _Scene:
    """A store with jobs in every state, and a few of them at hand."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.backend = backend = MemoryBackend(partitions=2, retention=_KEEP, clock=self.clock)
        add(backend, 5)
        complete(backend, lease(backend))
        bury(backend, lease(backend))
        retry(backend, lease(backend), 50.0)
        self.expired = lease(backend, duration=1.0)
        self.clock.advance(2.0)
        backend.promote_queue_version(QUEUE, 2, 3)
        add(backend, 2, delay=5.0)
        self.cancelled = add(backend, delay=5.0)[0].job.id
        backend.cancel(QUEUE, [self.cancelled])
        add(backend, 8)
        self.held = lease(backend, 3)
        self.due = add(backend, 2, delay=5.0)
        self.clock.advance(6.0)
        self.ids = self.all_ids()

    def drain(self) -> None:
        """Leave nothing but finished jobs behind in version 1."""
        waiting = [job.id for job in self.backend.list(QUEUE, JobState.RETRY_WAIT).jobs]
        self.backend.cancel(QUEUE, waiting)
        complete(self.backend, [*self.expired, *self.held, *lease(self.backend, 100)])

    def all_ids(self) -> set[str]:
        return {job.id for state in JobState for job in self.backend.list(QUEUE, state).jobs}

    def first(self, state: JobState) -> list[str]:
        return [job.id for job in self.backend.list(QUEUE, state, limit=1).jobs]


_NEW = [new(), new(delay=5.0)]
_TOKEN = "0" * 31 + "1"
_CALLS: dict[str, Callable[[_Scene], object]] = {
    "enqueue": lambda scene: scene.backend.enqueue(_NEW),
    "promote_due": lambda scene: scene.backend.promote_due([QUEUE], 10),
    "lease": lambda scene: lease(scene.backend, 4, token=_TOKEN),
    "renew": lambda scene: scene.backend.renew(scene.held, 1.0),
    "complete": lambda scene: complete(scene.backend, scene.held),
    "retry": lambda scene: retry(scene.backend, scene.held, 5.0),
    "retry at once": lambda scene: retry(scene.backend, scene.held),
    "snooze": lambda scene: scene.backend.retry([Failure(lease=each, counted=False) for each in scene.held]),
    "bury": lambda scene: bury(scene.backend, scene.held),
    "release": lambda scene: scene.backend.release(scene.held),
    "recover_expired": lambda scene: scene.backend.recover_expired([QUEUE], 10),
    "cancel ready": lambda scene: scene.backend.cancel(QUEUE, scene.first(JobState.READY)),
    "cancel scheduled": lambda scene: scene.backend.cancel(QUEUE, scene.first(JobState.SCHEDULED)),
    "requeue": lambda scene: scene.backend.requeue(QUEUE, scene.first(JobState.DEAD)),
    "pause": lambda scene: scene.backend.pause(QUEUE),
    "promote_queue_version": lambda scene: scene.backend.promote_queue_version(QUEUE, 3, 4),
    "list": lambda scene: scene.backend.list(QUEUE, JobState.READY),
    "stats": lambda scene: scene.backend.stats([QUEUE]),
    "waiter": lambda scene: scene.backend.waiter([QUEUE]).close(),
    "the clock set back": lambda scene: (scene.clock.advance(-1000.0), scene.backend.ping()),
}
_DRAINING: dict[str, Callable[[_Scene], object]] = {
    "purge": lambda scene: scene.backend.complete_draining_version(QUEUE, 1, finished="purge"),
    "move": lambda scene: scene.backend.complete_draining_version(QUEUE, 1, finished="move"),
}
_DELETING: dict[str, Callable[[_Scene], object]] = {
    "purge": lambda scene: scene.backend.purge(QUEUE, JobState.SCHEDULED, 10),
    "trim": lambda scene: (scene.clock.advance(1000.0), scene.backend.trim([QUEUE], 10)),
}


def _cut_at_every_line(
    call: Callable[[_Scene], object], check: Callable[[_Scene], None], prepare: Callable[[_Scene], None] | None = None
) -> None:
    """Cut *call* short at its first line, its second, and so on until it has no more."""
    for line in range(1, 10_000):
        scene = _Scene()
        if prepare is not None:
            prepare(scene)
        cutter = _Cutter(line)
        try:
            with cutter:
                call(scene)
        except _CutShortError:
            pass
        check_inside(scene.backend)
        check(scene)
        if cutter.done:
            assert line > 10
            return
    raise AssertionError("the call has no end")


@pytest.mark.parametrize("name", _CALLS)
def test_a_call_cut_short_anywhere_loses_and_doubles_no_job(name: str) -> None:
    """Guarantee 8. The store goes on working: the same call succeeds when it is repeated."""

    def check(scene: _Scene) -> None:
        assert scene.ids <= scene.all_ids()
        _CALLS[name](scene)
        check_inside(scene.backend)
        assert scene.ids <= scene.all_ids()
        complete(scene.backend, lease(scene.backend, 100, duration=1.0))
        check_inside(scene.backend)

    _cut_at_every_line(_CALLS[name], check)


@pytest.mark.parametrize("name", _DELETING)
def test_a_deletion_cut_short_anywhere_leaves_each_job_whole_or_gone(name: str) -> None:
    def check(scene: _Scene) -> None:
        before = scene.all_ids()
        assert before <= scene.ids
        for job in scene.backend.get(QUEUE, list(before)).values():
            assert job.type == "t"

    _cut_at_every_line(_DELETING[name], check)


@pytest.mark.parametrize("finished", _DRAINING)
def test_the_completion_of_a_version_cut_short_anywhere_is_completed_by_a_repeat(finished: str) -> None:
    """And a job on its way into the active version is in exactly one of the two."""

    def check(scene: _Scene) -> None:
        before = scene.all_ids()
        assert finished == "purge" or before == scene.ids
        _DRAINING[finished](scene)
        check_inside(scene.backend)
        assert [version.version for version in scene.backend.topology(QUEUE).versions] == [2]
        assert finished == "purge" or scene.all_ids() == before

    _cut_at_every_line(_DRAINING[finished], check, _Scene.drain)


def test_a_lease_call_cut_short_is_repeated_with_its_token() -> None:
    """The caller never saw the result; a call with the same token returns it."""
    for line in range(1, 400, 7):
        scene = _Scene()
        try:
            with _Cutter(line):
                lease(scene.backend, 4, token=_TOKEN)
        except _CutShortError:
            again = lease(scene.backend, 4, token=_TOKEN)
            assert len(again) == 4
            assert {each.job.attempts for each in again} == {1}
            assert not complete(scene.backend, again)


def test_waiters_are_notified_of_a_job_whose_enqueue_call_was_cut_short() -> None:
    for line in range(1, 200, 3):
        backend = MemoryBackend()
        waiter = backend.waiter([QUEUE])
        try:
            with _Cutter(line):
                add(backend)
        except _CutShortError:
            backend.ping()
            stored = backend.stats([QUEUE])[0].counts[JobState.READY]
            assert waiter.wait(0.0) or not stored
        waiter.close()


# Python drops one that comes while a weak reference is being cleared, and warns.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_exceptions_raised_in_a_thread_from_outside_leave_the_store_whole() -> None:
    """As `interrupt=True` raises them in a handler, which may just be enqueueing: at whatever instruction it is."""
    backend = MemoryBackend(partitions=3, retention=_KEEP)
    # Nothing of threading's: its own locks may stay locked in a thread that is cut short.
    turns: SimpleQueue[None] = SimpleQueue()
    stop: list[bool] = []

    def work() -> None:
        while not stop:
            turns.put(None)
            ids = [each.job.id for each in add(backend, 5)]
            add(backend, 2, delay=0.001)
            held = lease(backend, 4, duration=0.01)
            for settle, each in zip((complete, bury, retry, MemoryBackend.release), held, strict=False):
                settle(backend, [each])
            backend.cancel(QUEUE, ids)
            backend.promote_due([QUEUE], 10)
            backend.recover_expired([QUEUE], 10)
            backend.purge(QUEUE, JobState.CANCELLED, 10)
            backend.get(QUEUE, ids)
            backend.list(QUEUE, JobState.READY, limit=5)
            backend.stats()

    def keep_working() -> None:
        while not stop:
            try:
                with suppress(_CutShortError):
                    work()
            except _CutShortError:  # it came between the two lines above
                pass

    thread = threading.Thread(target=keep_working)
    thread.start()
    try:
        for _ in range(300):
            while not turns.empty():
                turns.get_nowait()
            turns.get(timeout=60.0)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(_CutShortError))
    finally:
        stop.append(True)
        thread.join(60.0)
    assert not thread.is_alive(), "the lock stayed with a call that was cut short"
    check_inside(backend)
