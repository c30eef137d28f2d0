"""Interruption of handlers: raises an exception in their thread, and never loses the thread or leaves a lock held."""

from __future__ import annotations

import _weakrefset
import contextlib
import ctypes
import gc
import logging
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Final

from scheduler.critical import Interruptible as Run
from scheduler.critical import here
from scheduler.errors import JobInterrupted
from scheduler.worker.frames import collector_paused, frames_of, outwards

_set_exception = ctypes.pythonapi.PyThreadState_SetAsyncExc
_set_exception.argtypes = (ctypes.c_ulong, ctypes.py_object)

# Files of modules whose functions take or release locks in Python, or whose callbacks swallow exceptions.
_LOCKING: Final = frozenset(
    {
        threading.Condition.__enter__.__code__.co_filename,
        contextlib.contextmanager.__code__.co_filename,
        weakref.WeakValueDictionary.__init__.__code__.co_filename,
        _weakrefset.WeakSet.__init__.__code__.co_filename,
        "<frozen importlib._bootstrap>",
    }
)
_LOGGING: Final = logging.Handler.handle.__code__.co_filename
# Functions of logging that, up to Python 3.12, take a lock before they enter the block that releases it.
_LOGGING_LOCKS: Final = frozenset({"acquire", "release", "handle", "_acquireLock", "_releaseLock"})
_FINALIZE: Final = weakref.finalize.__call__.__code__  # called as a weak reference's callback
_ENTERING: Final = frozenset({"__enter__", "__exit__"})


class _Raised(JobInterrupted):
    """The exception that is raised. The interpreter creates the instance, without arguments."""

    def __init__(self) -> None:
        super().__init__("timeout")


class _Stopper(BaseException):
    """Raised by a thread in itself, to replace an exception that may still be pending."""


class Interruptible(Run):
    """
    Run of one function, in which another thread can raise `JobInterrupted` by calling `interrupt()`.

    The function receives the exception at most once. If Python drops it because it landed in a callback, it is raised
    again.

    The exception comes at the next Python instruction, so it waits for a call into C to return. It also waits for the
    end of the library's critical sections and of nested runs, and until the thread neither takes nor releases a lock of
    `threading`, `logging` or similar modules. It never escapes from `run`.
    """

    def __init__(self) -> None:
        # No lock guards these: CPython switches threads only at calls, loops and the starts of functions, and the code
        # below that must be atomic has none of them. The exception that is raised here could leave such a lock held.
        self.depth = 1  # 0 = inside the function and outside of critical sections
        self._requested = self._raised = self._over = False
        self._thread = threading.get_ident()

    def interrupt(self) -> bool:
        """
        Raise `JobInterrupted` in the thread that created this object, during its `run`. Thread-safe.

        Returns False until that run is over. Repeat the call until then: it may not have been possible to raise the
        exception, or the interpreter may have dropped it. On the thread itself it is raised at once, if possible.
        """
        self._requested = True
        if threading.get_ident() == self._thread:
            self.left()
        elif not self._raised:
            with collector_paused():
                frames = frames_of(self._thread)
                self._raise_in(frames)
            del frames  # after the pause: this finalises objects that only these frames held
        return self._over

    def left(self) -> None:
        """Raise an interrupt that waited for the end of a critical section, unless it must not land here either."""
        if self._requested and not self._raised and self.depth == 0 and _may_land(outwards(sys._getframe(2))):  # noqa: SLF001 - documented
            self._raised = True
            raise _Raised

    def dropped(self) -> None:
        """Allow the interrupt to be raised again, since Python has dropped it. Called on the thread of this object."""
        self._raised = False

    def _raise_in(self, frames: Sequence[FrameType]) -> None:
        if not frames or not _may_land(frames):
            return
        # Atomic, see `__init__`: a `for` loop over a callable calls it without a switch of threads. So the thread is
        # still where it was checked, it has entered no critical section, and the exception lands there.
        for innermost in iter(sys._current_frames, None):  # noqa: SLF001 - documented
            if self.depth == 0 and not self._raised and innermost[self._thread] is frames[0]:
                self._raised = True
                _set_exception(self._thread, _Raised)
            break

    def run(self, function: Callable[[], object]) -> tuple[object, BaseException | None]:
        """Call *function*. Return its result, and the exception that it raised or None."""
        result: object = None
        raised: BaseException | None = None
        returned = False
        _install_hook()
        outer, here.run = here.run, self
        if outer is not None:
            outer.depth += 1
        try:
            self.depth = 0
            if self._requested and not self._raised:
                self._raised = True
                raise _Raised  # noqa: TRY301 - requested before the function began: handled as if raised inside
            result = function()
            returned = True
        except BaseException as error:  # noqa: BLE001 - the caller turns any exception into an outcome
            raised = error
        finally:
            while True:
                try:
                    self.depth = 1
                    if self._raised:
                        self._flush()
                    break
                except _Raised as error:
                    if not returned and raised is None:  # a function that returned in time has succeeded
                        raised = error
        here.run = outer
        if outer is not None:
            outer.depth -= 1  # an interrupt that waited is raised later: it must not land here
        self._over = True
        try:
            return result, raised
        finally:
            raised = None  # its traceback leads to this frame: the cycle would keep alive what the handler held

    def _flush(self) -> None:
        """
        Clear an exception that may be pending in this thread.

        Setting NULL would clear it too, but the interpreter would keep its flag that something is pending. All threads
        would then check for it at every turn, for ever, and Python 3.11 hangs under a debugger or a coverage tool.
        """
        try:
            while True:  # until it is delivered; repeated, since a callback may have received it
                _set_exception(self._thread, _Stopper)
                for _ in range(100):
                    pass
        except _Stopper:
            return


def _may_land(frames: Iterable[FrameType]) -> bool:
    """
    Return whether an exception may be raised in the first, the innermost, of a thread's *frames*.

    False if it could come between taking a lock and entering the block that releases it, or before a lock is released.
    Only the innermost frame counts for that: the outer ones have entered their blocks. Also False inside a finaliser or
    a callback of the garbage collector, at any depth: the interpreter would print the exception and continue.
    """
    dropping = {_FINALIZE, _Hook.__call__.__code__, *map(_code_of, gc.callbacks)}
    for place, frame in enumerate(frames):
        code = frame.f_code
        if code.co_name == "__del__" or code in dropping:
            return False
        if place == 0 and (code.co_filename in _LOCKING or code.co_name in _ENTERING):
            return False
        if place == 0 and code.co_filename == _LOGGING and code.co_name in _LOGGING_LOCKS:
            return False
    return True


def _code_of(callback: object) -> CodeType | None:
    """Return the code that runs first when *callback* is called; None if it is not written in Python."""
    call = getattr(type(callback), "__call__", None)  # noqa: B004 - reads the method itself
    candidates = (callback, callback.__func__ if type(callback) is MethodType else None, call)
    return next((function.__code__ for function in candidates if isinstance(function, FunctionType)), None)


class _Hook:
    """
    Replacement of `sys.unraisablehook` that notices dropped interrupts and passes everything else on.

    After the check, a thread may reach a place where exceptions are dropped without running a Python instruction: a
    call into C returns and frees an object with a finaliser. Python calls this hook on the same thread.
    """

    def __init__(self, before: Callable[[sys.UnraisableHookArgs], object]) -> None:
        self._before = before
        # Kept here, since the globals of modules are cleared when the interpreter exits.
        self._here, self._raised, self._stopper = here, _Raised, _Stopper

    def __call__(self, unraisable: sys.UnraisableHookArgs) -> None:
        run = self._here.run
        try:
            if unraisable.exc_type is self._stopper:
                return  # raised again by the run that waits for it
            if unraisable.exc_type is self._raised and run is not None:
                run.dropped()
            else:
                self._before(unraisable)
        except self._raised:
            if run is not None:
                run.dropped()


def _install_hook() -> None:
    """Install the hook, unless it is the current one. It does no harm if two threads install it at once."""
    before = getattr(sys, "unraisablehook", sys.__unraisablehook__)
    if type(before) is not _Hook:
        sys.unraisablehook = _Hook(before)
