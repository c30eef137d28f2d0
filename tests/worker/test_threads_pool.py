"""Handler threads: at most so many, each started when it is first needed, and gone at the end."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from scheduler.worker.threads import BoundedPool
from worker.harness import SOON


class Shifts:
    """Counts the shifts that begin; each lasts until the test lets it end."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.let_end = threading.Semaphore(0)
        self.threads: set[int] = set()

    def __call__(self) -> None:
        self.threads.add(threading.get_ident())
        self.begun.release()
        assert self.let_end.acquire(timeout=SOON)


@pytest.fixture
def shifts() -> Shifts:
    return Shifts()


@pytest.fixture
def entered() -> list[int]:
    return []


@pytest.fixture
def crashes() -> list[BaseException]:
    return []


@pytest.fixture
def pool(shifts: Shifts, entered: list[int], crashes: list[BaseException]) -> Iterator[BoundedPool]:
    pool = BoundedPool(3, shifts, crashes.append, enter=lambda: entered.append(threading.get_ident()))
    yield pool
    for _ in range(100):
        shifts.let_end.release()
    pool.close(wait=True)


def begin(shifts: Shifts, count: int) -> None:
    for _ in range(count):
        assert shifts.begun.acquire(timeout=SOON)


def test_no_thread_is_started_before_it_is_needed(pool: BoundedPool, shifts: Shifts, entered: list[int]) -> None:
    assert not entered
    pool.wake_threads(1)
    begin(shifts, 1)
    assert set(entered) == shifts.threads
    assert len(entered) == 1


def test_a_thread_that_waits_is_used_again(pool: BoundedPool, shifts: Shifts, entered: list[int]) -> None:
    for _ in range(5):
        pool.wake_threads(1)
        begin(shifts, 1)
        shifts.let_end.release()
        for thread in pool._threads:  # it tells that it is free after its shift
            assert thread.is_alive()
        assert pool._idle.acquire(timeout=SOON)
        pool._idle.release()
    assert len(entered) == 1


def test_there_are_never_more_threads_than_allowed_and_no_call_is_lost(pool: BoundedPool, shifts: Shifts) -> None:
    pool.wake_threads(5)
    begin(shifts, 3)
    assert not shifts.begun.acquire(timeout=0.05)
    shifts.let_end.release(2)
    begin(shifts, 2)
    assert len(shifts.threads) == 3


def test_close_waits_for_the_shifts_under_way_and_ends_all_threads(pool: BoundedPool, shifts: Shifts) -> None:
    pool.wake_threads(3)
    begin(shifts, 3)
    shifts.let_end.release(3)
    pool.close(wait=True)
    assert not any(thread.is_alive() for thread in pool._threads)


def test_close_need_not_wait_for_a_stuck_thread(pool: BoundedPool, shifts: Shifts) -> None:
    pool.wake_threads(1)
    begin(shifts, 1)
    pool.close(wait=False)
    assert pool._threads[0].is_alive()


def test_a_shift_that_raises_is_reported_and_its_thread_is_used_again(crashes: list[BaseException]) -> None:
    runs = threading.Semaphore(0)
    errors = [ZeroDivisionError(), SystemExit()]

    def shift() -> None:
        runs.release()
        if errors:
            raise errors.pop(0)

    pool = BoundedPool(1, shift, crashes.append, enter=lambda: None)
    for _ in range(3):
        pool.wake_threads(1)
        assert runs.acquire(timeout=SOON)
    pool.close(wait=True)
    assert [type(error) for error in crashes] == [ZeroDivisionError, SystemExit]
    assert len(pool._threads) == 1
