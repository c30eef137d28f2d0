"""Both ways to fork: with Python's hooks, and in C without them, as uWSGI does by default."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable

import pytest

# PyDLL: the interpreter's lock stays held, as in uWSGI's own fork.
FORKS: dict[str, Callable[[], int]] = (
    {"with hooks": os.fork, "without hooks": ctypes.PyDLL(None).fork} if sys.platform == "linux" else {}
)

every_fork = pytest.mark.parametrize("fork", FORKS.values(), ids=FORKS.keys())
