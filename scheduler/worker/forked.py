"""What becomes of the child of a handler that forks, when the child comes out of the handler as well."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from scheduler.worker.outcome import describe


def end_child(error: BaseException | None) -> NoReturn:
    """
    End this process as Python would end a program whose code returned, or raised *error*.

    In the child of a fork the handler's thread is the only one, on a copy of all that the worker holds: going on, it
    would run the jobs in the buffer a second time, and record what the parent records.
    """
    status = 1
    try:
        if error is None:
            status = 0
        elif issubclass(type(error), SystemExit):  # not isinstance, which asks the error's own code what it is
            code = getattr(error, "code", None)
            status = code if isinstance(code, int) else int(code is not None)
        else:
            # Not by a stream or a logger: another thread may have held its lock at the fork.
            os.write(2, describe(error).traceback.encode(errors="replace"))
        sys.stdout.flush()
    finally:  # whatever the code of the error does: this process must not go on
        os._exit(status & 0xFF)
