"""What handlers write down, for a test to read: a line is one write, so a killed process leaves whole lines."""

from __future__ import annotations

import os
import time

from scheduler import Job

_PATH = os.environ["LEDGER"]


def note(event: str, job: Job) -> None:
    """Append a line. The file is opened each time, since some handlers close open files."""
    file = os.open(_PATH, os.O_WRONLY | os.O_APPEND)
    try:
        line = f"{event} {job.id} {job.type} {job.attempts} {os.getpid()} {time.monotonic()}\n"
        os.write(file, line.encode())
    finally:
        os.close(file)
