"""Reads the frames of another thread while that thread runs."""

from __future__ import annotations

import gc
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from scheduler.processes import PerProcess, run_in_children

# Each guards the collector's switch. Handlers' threads never take it: they could be interrupted while they do.
_locks: PerProcess[threading.Lock] = PerProcess()
_paused = False  # whether the collector is off for a moment, and was on before


@contextmanager
def collector_paused() -> Iterator[None]:
    """
    Keep Python 3.11 from collecting garbage on this thread. Not to be called on a handler's thread.

    Reading `f_back` there makes the outer frame an object. That may start a collection, whose callbacks and finalisers
    let the other thread run and leave the frame: what is then read is freed memory. Since 3.12 a collection waits for
    the next Python instruction. If the program switches the collector off during the pause, it is on again afterwards.
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
    """End a pause; also in a child that was forked during one, which has no thread that would end it."""
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
    """Return a thread's frames, innermost first; none if it has ended. Call it in `collector_paused`."""
    return list(outwards(sys._current_frames().get(thread)))  # noqa: SLF001 - the documented way to another thread's frames


def stack_of(thread: int, limit: int) -> str:
    """Return the innermost *limit* frames of a thread, as a traceback shows them. *thread*: its identifier."""
    with collector_paused():
        frames = frames_of(thread)[:limit]
    lines = traceback.StackSummary.extract((frame, frame.f_lineno) for frame in reversed(frames))
    return "".join(lines.format())
