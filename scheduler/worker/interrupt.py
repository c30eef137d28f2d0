"""Raising an exception inside a handler's thread, without ever losing that thread."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

from scheduler.errors import JobInterrupted

_set_exception = ctypes.pythonapi.PyThreadState_SetAsyncExc
_set_exception.argtypes = (ctypes.c_ulong, ctypes.py_object)
# The same function with an untyped second argument: NULL takes back an exception that was not delivered yet.
_clear_exception = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p)(
    ("PyThreadState_SetAsyncExc", ctypes.pythonapi)
)


class _Raised(JobInterrupted):
    """The class that is raised: the interpreter makes its instance without arguments."""

    def __init__(self) -> None:
        super().__init__("timeout")


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
                    _clear_exception(self._thread, None)
                    break
                except _Raised as error:
                    if not returned:  # a function that returned in time has succeeded
                        raised = raised or error
        try:
            return result, raised
        finally:
            raised = None  # its traceback leads to this frame: a circle would keep alive whatever the handler held
