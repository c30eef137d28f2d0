"""What stands between the supervisor and its children holds when the system or a handler does not play along."""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from production.embedded import elapse
from production.place import now
from programs import wait_until
from scheduler.cli.child import Slot
from scheduler.cli.options import WorkerOptions
from scheduler.cli.protocol import ChildSetup, Exiting, Status, SupervisorLink


def test_a_child_that_cannot_be_started_is_tried_again_later(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    before = len(list(Path("/proc/self/fd").iterdir()))
    slot = Slot(0, "supervisor")
    for back_off in (0.5, 1.0, 2.0):
        slot.start_child(WorkerOptions(target="app:worker"))
        assert slot.child is None
        assert back_off - 0.5 < slot.start_at - now() <= back_off
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_nothing_is_written_to_a_descriptor_that_is_not_the_supervisors_socket_any_more(tmp_path, monkeypatch):
    """A handler that closed everything may have made room for a database's file under the socket's number."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        setup = ChildSetup(socket=theirs.fileno(), options=WorkerOptions(target="app:worker", queues=("a", "b")))
        for name, value in setup.environment().items():
            monkeypatch.setenv(name, value)
        link = SupervisorLink.take()
        assert link.setup == setup
        assert SupervisorLink.take() is None  # programs that a handler starts are not children of the supervisor
        link.send(Status(live=True, ready=True))
        assert b'"ready": true' in ours.recv(4_096)
        with (tmp_path / "database").open("wb") as file:
            os.dup2(file.fileno(), theirs.fileno())
            link.send(Status(live=True, ready=True))
            link.send(Exiting(status=0))
        assert (tmp_path / "database").read_bytes() == b""


def test_a_supervisor_that_stood_still_does_not_take_its_children_for_silent(file_place):
    """A machine that slept, or a SIGSTOP: the children may have stood still as well, and speak again in a moment."""
    worker = file_place.worker("steady:worker", "--processes", "1", "--watch", ".", "--max-silence", "4")
    file_place.until_finished(file_place.add("quick"))
    child = file_place.lines()[0].process
    elapse(1.5)  # it has spoken
    for process in (worker.process.pid, child):
        os.kill(process, signal.SIGSTOP)
    elapse(5.0)
    for process in (worker.process.pid, child):
        os.kill(process, signal.SIGCONT)
    id = file_place.add("quick", max_retries=3)
    file_place.until_finished(id)
    assert file_place.until_line("began", id).process == child
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0, worker.output
    assert "silence" not in worker.output
    assert "no status" not in worker.output


@pytest.mark.long
def test_a_supervisor_gives_its_children_the_grace_that_the_application_chose(file_place):
    id = file_place.add("lasting", timeout=100)
    worker = file_place.worker("steady:worker", "--processes", "2", GRACE="60")
    file_place.until_line("began", id)
    worker.signal(signal.SIGTERM)
    elapse(33.0)  # more than the default grace and its margin
    (file_place.folder / "go").touch()
    wait_until(lambda: worker.process.poll() is not None)
    assert worker.ended() == 0, worker.output
    assert file_place.job(id).state == "succeeded"
