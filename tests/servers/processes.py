"""What the kernel knows of a process's descendants, and how they end with it. Linux only; elsewhere none are found."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_LAUNCH = Path(__file__).with_name("launch.py")


def ending_with_us(
    command: Sequence[str], death_signal: signal.Signals = signal.SIGKILL, identity: str = "-"
) -> list[str]:
    """
    What starts *command*, a program by its absolute path, so that it is signalled when this process ends, however.

    identity: "uid:gid" to become, "-" = stay. Raises RuntimeError on any thread but the main one, with whose end the
    program would end.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("start programs from the main thread: they end with the thread that started them")
    # -I -S: a start in some 10 ms, and no site hook of the tests' environment runs in it.
    return [sys.executable, "-I", "-S", str(_LAUNCH), str(os.getpid()), str(int(death_signal)), identity, *command]


def descendants(pid: int) -> list[int]:
    """The pids of *pid*'s children, their children, and so on."""
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir() if _PROC.is_dir() else ():
        if entry.name.isdecimal() and (fields := _stat(int(entry.name))):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def started_at(pid: int) -> str:
    """When a process began, in ticks since the machine's start: tells it from a later one with its pid. "" = gone."""
    fields = _stat(pid)
    return fields[19] if fields else ""


def send(pids: list[int], number: signal.Signals) -> None:
    """Signal all of *pids* that are still there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def wait_gone(pids: list[int], timeout: float = 10.0) -> None:
    """Wait until each of *pids* is gone, or dead and only not reaped: a container's first process may never reap."""
    end = time.monotonic() + timeout
    while left := [pid for pid in pids if (fields := _stat(pid)) and fields[0] != "Z"]:
        if time.monotonic() > end:
            raise TimeoutError(f"processes {left} are still there after {timeout:g} s")
        time.sleep(0.002)


def _stat(pid: int) -> list[str] | None:
    """State, parent and so on; None when the process is gone."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()  # the name in parentheses may hold anything
