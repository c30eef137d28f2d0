"""What a process has for itself, and what is suspended while it forks."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Callable

import pytest

from scheduler import processes
from scheduler.processes import PerProcess, process, run_in_children, suspend_at_forks, suspend_briefly

WAIT_TIMEOUT = 30.0
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # the very thing that is tried


class Member:
    def __init__(self) -> None:
        self.suspended = self.resumed = 0

    def suspend(self):
        self.suspended += 1
        return self.resume

    def resume(self) -> None:
        self.resumed += 1


def in_child(check: Callable[[], bool]) -> bool:
    """Whether *check* holds in the child of a fork."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if check() else 2
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_fork_suspends_and_the_parent_resumes():
    member = Member()
    suspend_at_forks(member)
    assert in_child(lambda: (member.suspended, member.resumed) == (1, 0))
    assert (member.suspended, member.resumed) == (1, 1)


def test_a_member_that_nobody_refers_to_is_forgotten():
    suspend_at_forks(kept := Member())
    gc.collect()
    assert kept in processes._members
    forgotten = weakref.ref(kept)
    del kept
    gc.collect()
    assert forgotten() is None


def test_each_of_two_forks_at_once_resumes_what_it_has_suspended():
    """A signal handler may fork. Not by `os.fork` here: it would take a lock of `concurrent.futures` twice."""
    member = Member()
    suspend_at_forks(member)
    processes._before()
    processes._before()
    processes._after_in_parent()
    assert (member.suspended, member.resumed) == (2, 1)
    processes._after_in_parent()
    assert member.resumed == 2
    assert in_child(lambda: not processes._resumes)


def test_some_may_be_suspended_without_a_fork():
    one, other = Member(), Member()
    suspend_at_forks(one)
    suspend_at_forks(other)
    suspend_briefly(lambda member: member is one)
    assert (one.suspended, one.resumed, other.suspended) == (1, 1, 0)


def test_each_process_makes_a_value_of_its_own_once():
    values: PerProcess[object] = PerProcess()
    made: list[object] = []
    gate = threading.Barrier(8)

    def make() -> object:
        made.append(object())
        return made[-1]

    def get() -> None:
        gate.wait(WAIT_TIMEOUT)
        values.get(make)

    threads = [threading.Thread(target=get) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_TIMEOUT)
    assert len(made) == 1
    assert in_child(lambda: values.get(make) is made[1])
    assert values.get(make) is made[0]


def test_a_child_is_another_process_even_with_the_same_id(monkeypatch):
    here = process()
    monkeypatch.setattr(os, "getpid", lambda: here[0])
    assert in_child(lambda: process() != here)


def test_a_function_may_be_run_in_every_child(monkeypatch):
    monkeypatch.setattr(processes, "_in_children", [])
    called: list[bool] = []
    run_in_children(lambda: called.append(True))
    assert in_child(lambda: called == [True])
    assert not called
