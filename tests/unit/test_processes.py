"""Objects that belong to one process, and objects that are suspended during a fork."""

from __future__ import annotations

import gc
import os
import sys
import threading
import weakref
from collections.abc import Callable
from types import FrameType
from weakref import WeakSet

import pytest

from cutting_short import cut_short
from scheduler import processes
from scheduler.critical import Interruptible, StoreLock, here
from scheduler.processes import PerProcess, process, run_in_children, suspend_at_forks, suspend_briefly

WAIT_TIMEOUT = 30.0
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # this is what the test checks


class Member:
    def __init__(self) -> None:
        self.suspended = self.resumed = 0

    def suspend(self, resumes: list[Callable[[], None]]) -> None:
        resumes.append(self.resume)
        self.suspended += 1

    def resume(self) -> None:
        self.resumed += 1


def in_child(check: Callable[[], bool]) -> bool:
    """Fork and return True if *check* returns True in the child."""
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
    processes._after_in_parent_again()
    assert (member.suspended, member.resumed) == (2, 1)
    processes._after_in_parent()
    assert member.resumed == 2
    processes._after_in_parent_again()
    assert member.resumed == 2
    assert in_child(lambda: processes._here.suspension is None)


class Interrupted(Member):
    """Gets a Ctrl-C while it is suspended, and another one while it is resumed."""

    def suspend(self, resumes: list[Callable[[], None]]) -> None:
        super().suspend(resumes)
        raise KeyboardInterrupt

    def resume(self) -> None:
        super().resume()
        if self.resumed == 1:
            raise KeyboardInterrupt


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_ctrl_c_inside_a_fork_leaves_nothing_suspended(monkeypatch):
    monkeypatch.setattr(processes, "_members", WeakSet())
    members = [Interrupted(), Interrupted()]
    for member in members:
        suspend_at_forks(member)
    assert in_child(lambda: True)
    assert {(member.suspended, member.resumed > 0) for member in members} == {(0, False), (1, True)}
    with pytest.raises(KeyboardInterrupt):
        suspend_briefly(lambda member: member is members[0])
    assert members[0].resumed > 0
    assert processes._here.suspension is None
    assert not processes._locks.get(threading.RLock)._is_owned()


class Locked:
    """Holds a store's lock while it is suspended."""

    def __init__(self) -> None:
        self.lock = StoreLock()

    def suspend(self, resumes: list[Callable[[], None]]) -> None:
        self.lock.acquire_once(WAIT_TIMEOUT, resumes)


def test_a_ctrl_c_at_any_step_of_a_hook_leaves_no_lock_held(monkeypatch):
    members = [Locked(), Locked()]
    monkeypatch.setattr(processes, "_members", WeakSet(members))
    run = Run()
    monkeypatch.setattr(here, "run", run)
    hooks = (processes._before, processes._after_in_parent, processes._after_in_parent_again)
    for interrupted_hook in hooks:
        at = 0
        ended = False
        while not ended:
            for hook in hooks:
                if hook is interrupted_hook:
                    ended = not cut_short(hook, at)
                else:
                    hook()
            assert not any(member.lock.is_mine for member in members), f"after a Ctrl-C at {at}"
            assert not processes._locks.get(threading.RLock)._is_owned()
            assert (run.depth, processes._here.suspension) == (0, None)
            at += 1
        assert at > (1 if interrupted_hook is hooks[-1] else 5)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_ctrl_c_as_a_hook_begins_leaves_nothing_suspended(monkeypatch):
    """Python drops it there, and skips the hook."""
    member = Member()
    monkeypatch.setattr(processes, "_members", WeakSet([member]))
    interrupted: list[str] = []

    def hook(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code is processes._after_in_parent.__code__:
            interrupted.append(frame.f_code.co_name)
            raise KeyboardInterrupt

    sys.setprofile(hook)
    try:
        forked = in_child(lambda: True)
    finally:
        sys.setprofile(None)
    assert forked
    assert interrupted == ["_after_in_parent"]
    assert (member.suspended, member.resumed) == (1, 1)
    assert processes._here.suspension is None


def test_a_fork_does_not_wait_for_ever_for_that_of_another_thread(monkeypatch):
    monkeypatch.setattr(processes, "_LONGEST_WAIT", 0.01)
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with processes._locks.get(threading.RLock):
            held.set()
            release.wait(WAIT_TIMEOUT)

    thread = threading.Thread(target=hold, daemon=True)
    thread.start()
    assert held.wait(WAIT_TIMEOUT)
    try:
        assert in_child(lambda: True)
        assert not release.is_set()
        assert thread.is_alive()
    finally:
        release.set()
        thread.join(WAIT_TIMEOUT)


class Run(Interruptible):
    """Records how many critical sections are open while the process forks."""

    def __init__(self) -> None:
        self.depth = 0
        self.left_within: list[int] = []

    def left(self) -> None:
        self.left_within.append(self.depth)


def test_no_interrupt_lands_from_the_first_hook_to_the_last(monkeypatch):
    run = Run()
    monkeypatch.setattr(here, "run", run)
    member = Member()
    depths: list[int] = []
    monkeypatch.setattr(member, "suspend", lambda resumes: depths.append(run.depth) or resumes.append(resume))

    def resume() -> None:
        depths.append(run.depth)

    suspend_at_forks(member)
    assert in_child(lambda: run.depth == 0)
    assert depths == [1, 1]
    assert run.depth == 0
    assert not run.left_within  # it would be raised inside the hook, and dropped


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
