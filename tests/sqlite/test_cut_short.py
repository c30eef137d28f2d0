"""A Ctrl-C, or another exception of a signal handler, at any step of a call."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from cutting_short import cut_short
from scheduler.jobs import NewJob
from scheduler.processes import suspend_briefly
from scheduler_backends.sqlite import SqliteBackend
from scheduler_backends.sqlite.slots import Open

QUEUE = "cut"
CALLS: dict[str, Callable[[SqliteBackend], object]] = {
    "enqueue": lambda backend: backend.enqueue([NewJob(type="mail", queue=QUEUE)]),
    "get": lambda backend: backend.get(QUEUE, ["none"]),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_cut_short_at_any_step_leaves_no_lock_held(backend, name):
    call = CALLS[name]
    call(backend)
    slots = backend._store.file._open.get(Open).slots
    for at in count():
        interrupted = cut_short(lambda: call(backend), at)
        assert not [slot for slot in slots if slot.lock.is_mine], f"after a Ctrl-C at {at}"
        call(backend)
        if not interrupted:
            assert at > 20
            return


# Python drops a Ctrl-C that comes in `__del__`, and Python 3.13 warns of a connection that was not closed.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
def test_a_fork_cut_short_at_any_step_leaves_no_closed_connection_behind(backend):
    """The next call found its log gone, and said that the file was removed or replaced."""
    file = backend._store.file
    for at in count():
        for call in CALLS.values():
            call(backend)
        interrupted = cut_short(lambda: suspend_briefly(lambda member: member is file), at)
        assert not [slot for slot in file._open.get(Open).slots if slot.lock.is_mine], f"after a Ctrl-C at {at}"
        if not interrupted:
            assert at > 20
            return
