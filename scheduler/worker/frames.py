"""Access to the frames of another thread while that thread runs."""

from __future__ import annotations

import gc
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from scheduler.processes import PerProcess, run_in_children

# Guards switching the garbage collector off and on. Handler threads never take it: an interrupt could leave it locked.
_locks: PerProcess[threading.Lock] = PerProcess()
_paused = False  # whether the collector is off and must be switched on again


@contextmanager
def collector_paused() -> Iterator[None]:
    """
    Pause the garbage collector on Python 3.11. Must not be called on a handler's thread.

    On 3.11, reading `f_back` creates a frame object, which may start a collection. Its callbacks and finalisers let the
    other thread run and leave the frame. Then freed memory is read. Since 3.12 a collection waits for the next Python
    instruction. If the program switches the collector off during the pause, the end of the pause switches it on again.
    """
    global _paused  # noqa: PLW0603 - a state of the process
    with _locks.get(threading.Lock):
        try:
            _paused = sys.version_info < (3, 12) and gc.isenabled()
            if _paused:
                gc.disable()
            yield
        finally:
            _resume()


def _resume() -> None:
    """End a pause. Also called in a child that was forked during one: it has no thread that would end it."""
    global _paused  # noqa: PLW0603 - a state of the process
    if _paused:
        gc.enable()
    _paused = False


run_in_children(_resume)


def outwards(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield *frame* and the frames that called it."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def frames_of(thread: int) -> list[FrameType]:
    """Return a thread's frames, innermost first, or none if it has ended. Call this in `collector_paused`."""
    return list(outwards(sys._current_frames().get(thread)))  # noqa: SLF001 - the documented way to another thread's frames


def stack_of(thread: int, limit: int) -> str:
    """Return the innermost *limit* frames of the thread with this identifier, formatted like a traceback."""
    with collector_paused():
        frames = frames_of(thread)[:limit]
    lines = traceback.StackSummary.extract((frame, frame.f_lineno) for frame in reversed(frames))
    return "".join(lines.format())
