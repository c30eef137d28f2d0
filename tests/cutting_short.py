"""Interrupt a call at each of its steps in turn."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType

_TESTS = str(Path(__file__).parent)


def cut_short(function: Callable[[], object], at: int) -> bool:
    """
    Call *function* and raise `KeyboardInterrupt` at its profiling event number *at*, from 0.

    The events of code in the tests are not counted, nor those of a frame that is left: an exception that is raised
    there skips its `finally`, and Python raises no Ctrl-C there. Return True if *function* was interrupted.
    """
    left = at

    def hook(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal left
        if event != "return" and not frame.f_code.co_filename.startswith(_TESTS):
            left -= 1
            if left == -1:
                raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        sys.setprofile(hook)
        try:
            function()
        finally:
            sys.setprofile(None)
    return left < 0
