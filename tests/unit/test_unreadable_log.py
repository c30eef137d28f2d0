"""The log of jobs that cannot be read is used on every thread, in signal handlers and in the children of forks."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from scheduler_backends.sql import unreadable
from scheduler_backends.sql.unreadable import UnreadableLog

WAIT_TIMEOUT = 30.0


def while_it_logs(monkeypatch: pytest.MonkeyPatch, log: UnreadableLog, call: Callable[[], None]) -> None:
    """Run *call* once while the thread is inside `log`."""
    calls = [call]

    def monotonic() -> float:
        if calls:
            calls.pop()()
        return time.monotonic()

    monkeypatch.setattr(unreadable, "time", SimpleNamespace(monotonic=monotonic))
    thread = threading.Thread(target=log.log, args=(1, "a job"), daemon=True)
    thread.start()
    thread.join(WAIT_TIMEOUT)
    assert not thread.is_alive(), "it waits for itself"


def test_a_signal_handler_may_log_inside_it(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    log = UnreadableLog(logging.getLogger("unreadable"))
    while_it_logs(monkeypatch, log, lambda: log.log(2, "another job"))
    assert "jobs cannot be read" in caplog.text


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # while threads run: the point
def test_a_child_forked_while_another_thread_logs_may_log(monkeypatch: pytest.MonkeyPatch) -> None:
    log = UnreadableLog(logging.getLogger("unreadable"))
    inside, forked = threading.Event(), threading.Event()
    codes: list[int] = []

    def fork() -> None:
        inside.wait(WAIT_TIMEOUT)
        child = os.fork()
        if child == 0:
            thread = threading.Thread(target=log.log, args=(1, "a job"), daemon=True)
            thread.start()
            thread.join(1.0)
            os._exit(int(thread.is_alive()))
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        forked.set()

    def wait() -> None:
        inside.set()
        forked.wait(WAIT_TIMEOUT)

    threading.Thread(target=fork).start()
    while_it_logs(monkeypatch, log, wait)
    assert codes == [0]
