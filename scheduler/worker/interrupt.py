"""Raising an exception inside a handler's thread, without ever losing that thread."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

from scheduler.errors import JobInterrupted

_set_exception = ctypes.pythonapi.PyThreadState_SetAsyncExc
_set_exception.argtypes = (ctypes.c_ulong, ctypes.py_object)


class _Raised(JobInterrupted):
    """The class that is raised: the interpreter makes its instance without arguments."""

    def __init__(self) -> None:
        super().__init__("timeout")


class _Stopper(BaseException):
    """Raised in the own thread to take the place of one that may be pending still."""


class Interruptible:
    """
    Runs one function, inside which `interrupt()` of another thread raises `JobInterrupted`, at most once.

    The exception comes at the next Python instruction, so it waits for a call into C to return. None escapes from
    `run`: it may land anywhere until the window is shut, so shutting is repeated until it held.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _open and _asked
        self._open = False
        self._asked = False
        self._thread = threading.get_ident()

    def interrupt(self) -> None:
        """Raise in the thread that made this object, inside its present or coming `run`. Any thread."""
        with self._lock:
            if self._asked:
                return
            self._asked = True  # first: in this very thread the next line is interrupted itself
            if self._open:
                _set_exception(self._thread, _Raised)

    def run(self, function: Callable[[], object]) -> tuple[object, BaseException | None]:
        """What *function* returned, and what it raised (None if it returned)."""
        result: object = None
        raised: BaseException | None = None
        returned = False
        try:
            self._open = True
            if self._asked:
                raise _Raised  # noqa: TRY301 - asked before the window opened: as if it had landed in it
            result = function()
            returned = True
        except BaseException as error:  # noqa: BLE001 - the caller makes an outcome of whatever it was
            raised = error
        finally:
            while True:
                try:
                    with self._lock:
                        self._open = False
                    if self._asked:
                        self._flush()
                    break
                except _Raised as error:
                    if not returned and raised is None:  # a function that returned in time has succeeded
                        raised = error
        try:
            return result, raised
        finally:
            raised = None  # its traceback leads to this frame: a circle would keep alive whatever the handler held

    def _flush(self) -> None:
        """
        Let nothing be pending in this thread.

        Setting NULL would do that too, but leaves the interpreter's mark that something is pending: all threads then
        look for it at every turn, for good, and Python 3.11 hangs where a debugger or a coverage tool traces it.
        """
        try:
            _set_exception(self._thread, _Stopper)
            while True:  # until it is delivered, which takes a turn
                pass
        except _Stopper:
            return
