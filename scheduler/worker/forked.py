"""What becomes of the child of a handler that forks, when the child comes out of the handler as well."""

from __future__ import annotations

import os
import sys
import traceback
from typing import NoReturn


def end_child(error: BaseException | None) -> NoReturn:
    """
    End this process as Python would end a program whose code returned, or raised *error*.

    In the child of a fork the handler's thread is the only one, on a copy of all that the worker holds: going on, it
    would run the jobs in the buffer a second time, and record what the parent records.
    """
    status = 0
    if isinstance(error, SystemExit):
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    elif error is not None:
        status = 1
        # Not by a stream or a logger: another thread may have held its lock at the fork.
        os.write(2, "".join(traceback.format_exception(error)).encode(errors="replace"))
    try:
        sys.stdout.flush()
    finally:
        os._exit(status & 0xFF)
