"""Waiters are notified at once, and once, and never block the store."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Self

import pytest

from memory.moves import QUEUE, add, bury, complete, lease, retry
from scheduler.abilities import TopologyAdmin, WakeReason, Wakeups
from scheduler.errors import BackendClosed, ConfigError
from scheduler.states import JobState
from scheduler.testing import ManualClock
from scheduler_backends.memory import MemoryBackend

_LONG = 30.0  # seconds: reached only by a failure


@pytest.fixture
def backend() -> MemoryBackend:
    return MemoryBackend(clock=ManualClock())


def _notifies(backend: MemoryBackend, act: Callable[[], object], *queues: str) -> bool:
    """Whether *act* notifies a waiter that begins before it."""
    waiter = backend.waiter(queues or [QUEUE])
    act()
    notified = bool(waiter.wait(0.0))
    waiter.close()
    return notified


def test_it_offers_the_abilities(backend: MemoryBackend) -> None:
    assert isinstance(backend, Wakeups)
    assert isinstance(backend, TopologyAdmin)


def test_the_first_ready_job_notifies_and_a_second_does_not(backend: MemoryBackend) -> None:
    assert _notifies(backend, lambda: add(backend))
    assert not _notifies(backend, lambda: add(backend))
    lease(backend, 2)
    assert _notifies(backend, lambda: add(backend))


def test_an_earlier_due_time_notifies_and_a_later_one_does_not(backend: MemoryBackend) -> None:
    assert _notifies(backend, lambda: add(backend, delay=50.0))
    assert not _notifies(backend, lambda: add(backend, delay=60.0))
    assert not _notifies(backend, lambda: add(backend, delay=50.0))
    assert _notifies(backend, lambda: add(backend, delay=40.0))


def test_every_way_into_ready_notifies(backend: MemoryBackend) -> None:
    add(backend, 2)
    held = list(lease(backend, 2, duration=1.0))
    assert _notifies(backend, lambda: backend.release([held.pop()]))
    held += lease(backend)
    assert _notifies(backend, lambda: retry(backend, [held.pop()]))
    held += lease(backend)
    assert _notifies(backend, lambda: retry(backend, [held.pop()], 0.5))
    backend.clock.advance(1.0)
    assert _notifies(backend, lambda: backend.promote_due([QUEUE], 10))
    held += lease(backend)
    backend.clock.advance(_LONG)
    assert _notifies(backend, lambda: backend.recover_expired([QUEUE], 10))
    (buried,) = lease(backend)
    complete(backend, lease(backend, 10))
    bury(backend, [buried])
    assert _notifies(backend, lambda: backend.requeue(QUEUE, [buried.job.id]))


def test_resume_notifies_and_jobs_of_a_paused_queue_do_not(backend: MemoryBackend) -> None:
    backend.pause(QUEUE)
    assert not _notifies(backend, lambda: add(backend))
    assert _notifies(backend, lambda: backend.resume(QUEUE))


def test_what_takes_jobs_away_does_not_notify(backend: MemoryBackend) -> None:
    ids = [each.job.id for each in add(backend, 6)]
    waiting = add(backend, delay=5.0)[0].job.id
    held = lease(backend, 2)
    acts = [
        lambda: lease(backend),
        lambda: complete(backend, held[:1]),
        lambda: bury(backend, held[1:]),
        lambda: backend.cancel(QUEUE, [*ids, waiting]),
        lambda: backend.purge(QUEUE, JobState.READY, 10),
        lambda: backend.trim([QUEUE], 10),
        backend.stats,
    ]
    assert [_notifies(backend, act) for act in acts] == [False] * len(acts)


def test_only_the_named_queues_notify(backend: MemoryBackend) -> None:
    assert not _notifies(backend, lambda: add(backend), "another")
    assert _notifies(backend, lambda: add(backend, queue="one more"), "another", "one more")


def test_a_notification_between_two_waits_is_kept_and_returned_once(backend: MemoryBackend) -> None:
    waiter = backend.waiter([QUEUE, "another"])
    add(backend)
    add(backend, queue="another")
    assert waiter.wait(_LONG)
    assert not waiter.wait(0.0)
    waiter.close()


def test_every_waiter_is_notified(backend: MemoryBackend) -> None:
    waiters = [backend.waiter([QUEUE]) for _ in range(5)]
    add(backend)
    assert all(waiter.wait(0.0) for waiter in waiters)


def test_a_notification_ends_a_wait_under_way(backend: MemoryBackend) -> None:
    waiter = backend.waiter([QUEUE])
    with _Waiting(lambda: waiter.wait(_LONG)) as waiting:
        add(backend)
        assert waiting.result() is WakeReason.ANY


def test_an_interrupt_ends_the_present_wait_or_the_next(backend: MemoryBackend) -> None:
    waiter = backend.waiter([QUEUE])
    with _Waiting(lambda: waiter.wait(_LONG)) as waiting:
        waiter.interrupt()
        assert waiting.result() is WakeReason.NONE
    waiter.interrupt()
    assert waiter.wait(_LONG) is WakeReason.NONE
    started = time.monotonic()
    assert waiter.wait(0.05) is WakeReason.NONE
    assert time.monotonic() - started >= 0.04, "an interrupt ends one wait, not two"


def test_an_interrupt_hides_no_notification(backend: MemoryBackend) -> None:
    waiter = backend.waiter([QUEUE])
    waiter.interrupt()
    add(backend)
    assert waiter.wait(_LONG) is WakeReason.ANY


def test_closing_the_waiter_ends_its_wait(backend: MemoryBackend) -> None:
    waiter = backend.waiter([QUEUE])
    with _Waiting(lambda: waiter.wait(_LONG)) as waiting:
        waiter.close()
        assert waiting.result() is WakeReason.NONE
    waiter.close()
    assert waiter.wait(_LONG) is WakeReason.NONE
    add(backend)


def test_closing_the_backend_ends_every_wait_and_refuses_another(backend: MemoryBackend) -> None:
    waiter, other = backend.waiter([QUEUE]), backend.waiter(["another"])
    with _Waiting(lambda: waiter.wait(_LONG)) as first, _Waiting(lambda: other.wait(_LONG)) as second:
        backend.close()
        for waiting in (first, second):
            assert waiting.result() in (WakeReason.NONE, BackendClosed)
    with pytest.raises(BackendClosed):
        waiter.wait(_LONG)
    with pytest.raises(BackendClosed):
        backend.waiter([QUEUE])
    waiter.close()


def test_waiting_blocks_no_other_call(backend: MemoryBackend) -> None:
    waiters = [backend.waiter([QUEUE]) for _ in range(20)]
    threads = [threading.Thread(target=waiter.wait, args=(_LONG,)) for waiter in waiters]
    for thread in threads:
        thread.start()
    with _Waiting(lambda: add(backend, queue="another")) as calling:
        assert calling.result() is not None
    for waiter in waiters:
        waiter.close()
    for thread in threads:
        thread.join(_LONG)
        assert not thread.is_alive()


def test_notifications_that_nobody_waits_for_do_not_pile_up(backend: MemoryBackend) -> None:
    waiter = backend.waiter([QUEUE])
    for _ in range(1_000):
        add(backend)
        complete(backend, lease(backend))
        waiter.interrupt()
    assert waiter._signals.get(SimpleQueue).qsize() <= 2


def test_closed_waiters_are_forgotten(backend: MemoryBackend) -> None:
    for number in range(100):
        backend.waiter([QUEUE, f"queue {number}"]).close()
    assert backend._store.waiters == set()


@pytest.mark.parametrize("timeout", [-1.0, float("nan"), float("inf"), True, "1"])
def test_a_bad_timeout_is_refused(backend: MemoryBackend, timeout: object) -> None:
    with pytest.raises(ConfigError) as refusal:
        backend.waiter([QUEUE]).wait(timeout)  # type: ignore[arg-type]
    assert refusal.value.field == "timeout"


def test_no_notification_is_lost_between_producers_and_a_worker_that_waits_when_it_found_nothing() -> None:
    backend = MemoryBackend()
    total, done = 600, 0

    def produce() -> None:
        for number in range(total // 3):
            add(backend, **({"delay": 0.001} if number % 7 == 0 else {}))

    waiter = backend.waiter([QUEUE])
    producers = [threading.Thread(target=produce) for _ in range(3)]
    for producer in producers:
        producer.start()
    deadline = time.monotonic() + 60.0
    while done < total:
        next_due = backend.promote_due([QUEUE], 100).next_due
        leases = lease(backend, 5)
        done += len(leases)
        assert not complete(backend, leases)
        if not leases and done < total:
            # Only a notification, or the due time that promote_due returned, may end it.
            assert waiter.wait(_LONG if next_due is None else next_due) or next_due is not None
        assert time.monotonic() < deadline
    for producer in producers:
        producer.join(_LONG)
    waiter.close()


class _Waiting:
    """Runs a call in a thread of its own; `result` is what it returned, or the class of what it raised."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self._thread = threading.Thread(target=self._run)
        self._started = threading.Event()

    def _run(self) -> None:
        self._started.set()
        try:
            self._result: object = self._call()
        except BackendClosed as error:
            self._result = type(error)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(_LONG)
        return self

    def result(self) -> object:
        self._thread.join(_LONG)
        assert not self._thread.is_alive()
        return self._result

    def __exit__(self, *_: object) -> None:
        self._thread.join(_LONG)
