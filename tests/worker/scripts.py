"""Python programs that a test runs to their end, where signals, forks and figures of a whole process are at stake."""

from __future__ import annotations

import os
import subprocess
import sys

# A suite that was started in the background ignores SIGINT, and so would every Python that it starts.
HEARS_CTRL_C = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"


def run_python(script: str, *arguments: str, timeout: float = 60.0, **environment: str) -> str:
    """What *script* printed; a failure of it, or a warning that nobody sees, is a failure of the test."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-X", "faulthandler", "-c", HEARS_CTRL_C + script, *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout.strip()
