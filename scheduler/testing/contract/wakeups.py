"""The ability Wakeups: a waiter is rung when there is news of its queues."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any

import pytest

from scheduler.backend import Backend, Waiter, Wakeups
from scheduler.errors import BackendClosed
from scheduler.leases import Failure
from scheduler.states import JobState
from scheduler.testing.rig import LONG, Rig
from scheduler.testing.situations import in_state

_PATIENCE = 20.0  # seconds that a wake-up may take on a loaded machine; it takes milliseconds
_SOON = 0.2  # seconds: a delay for which any store must wake a waiter that thinks nothing is due


def _nothing(_: Rig) -> None: ...


def _paused(rig: Rig) -> None:
    rig.add()
    rig.backend.pause(rig.queue)


# What rings → how to get there, and what then rings.
_NEWS: Mapping[str, tuple[Callable[[Rig], Any], Callable[[Rig, Any], object]]] = {
    "enqueue": (_nothing, lambda rig, _: rig.add()),
    "enqueue for soon": (_nothing, lambda rig, _: rig.add(delay=_SOON)),
    "enqueue sooner than the next": (lambda rig: rig.add(delay=LONG), lambda rig, _: rig.add(delay=_SOON)),
    "retry for soon": (
        lambda rig: rig.leased(),
        lambda rig, lease: rig.backend.retry([Failure(lease=lease, delay=_SOON)]),
    ),
    "retry for now": (lambda rig: rig.leased(), lambda rig, lease: rig.backend.retry([Failure(lease=lease)])),
    "release": (lambda rig: rig.leased(), lambda rig, lease: rig.backend.release([lease])),
    "requeue": (
        lambda rig: in_state(rig, JobState.DEAD)[0],
        lambda rig, job: rig.backend.requeue(job.queue, [job.id]),
    ),
    "resume": (_paused, lambda rig, _: rig.backend.resume(rig.queue)),
}


class WakeupsContract:
    @pytest.fixture
    def waiter(self, rig: Rig) -> Iterator[Waiter]:
        """A waiter on the rig's queue, or a skip."""
        with closing(_waiter(rig.backend, [rig.queue])) as waiter:
            yield waiter

    @pytest.mark.parametrize("news", sorted(_NEWS))
    def test_news_ends_a_wait(self, rig: Rig, waiter: Waiter, news: str) -> None:
        prepare, ring = _NEWS[news]
        prepared = prepare(rig)
        _quiet(waiter)
        assert _rings(waiter, lambda: ring(rig, prepared)), f"{news} did not wake the waiter"

    @pytest.mark.parametrize("news", sorted(_NEWS))
    def test_news_between_two_waits_is_not_lost(self, rig: Rig, waiter: Waiter, news: str) -> None:
        prepare, ring = _NEWS[news]
        prepared = prepare(rig)
        _quiet(waiter)
        ring(rig, prepared)
        assert _woken(waiter)

    def test_a_recovered_job_rings(self, rig: Rig, waiter: Waiter) -> None:
        rig.leased(rig.span)
        rig.wait(1.1 * rig.span)
        _quiet(waiter)
        assert _rings(waiter, rig.recover)

    def test_every_waiter_is_rung(self, rig: Rig, waiter: Waiter) -> None:
        with closing(_waiter(rig.backend, [rig.new_queue(), rig.queue])) as other:
            _quiet(waiter)
            _quiet(other)
            rig.add()
            assert _woken(waiter)
            assert _woken(other)

    def test_any_of_a_waiter_s_queues_rings(self, rig: Rig) -> None:
        queues = [rig.new_queue(), rig.new_queue(), rig.new_queue("odd *:{x} {}")]
        with closing(_waiter(rig.backend, queues)) as waiter:
            for queue in queues:
                _quiet(waiter)
                rig.add(queue=queue)
                assert _woken(waiter)

    def test_a_wait_without_news_ends_at_its_time_out(self, waiter: Waiter) -> None:
        _quiet(waiter)
        started = time.monotonic()
        waiter.wait(0.1)
        waiter.wait(0.0)
        assert time.monotonic() - started < _PATIENCE

    def test_an_idle_waiter_does_not_spin(self, waiter: Waiter) -> None:
        """It may return early, but not at once for ever."""
        _quiet(waiter)
        deadline = time.monotonic() + 0.5
        waits = 0
        while time.monotonic() < deadline:
            waiter.wait(0.25)
            waits += 1
        assert waits <= 50

    def test_an_interrupt_ends_the_present_wait(self, waiter: Waiter) -> None:
        _quiet(waiter)
        assert _returns(lambda: waiter.wait(10 * _PATIENCE), waiter.interrupt)

    def test_an_interrupt_before_a_wait_ends_the_next_one(self, waiter: Waiter) -> None:
        _quiet(waiter)
        waiter.interrupt()
        started = time.monotonic()
        waiter.wait(10 * _PATIENCE)
        assert time.monotonic() - started < _PATIENCE

    def test_closing_a_waiter_ends_its_wait_and_may_be_done_twice(self, waiter: Waiter) -> None:
        _quiet(waiter)

        def wait() -> None:
            with suppress(BackendClosed):
                waiter.wait(10 * _PATIENCE)

        assert _returns(wait, waiter.close)
        waiter.close()

    def test_closing_the_backend_ends_every_wait(self, rig: Rig) -> None:
        backend = rig.another()
        waiter = _waiter(backend, [rig.queue])
        _quiet(waiter)

        def wait() -> None:
            with suppress(BackendClosed):
                waiter.wait(10 * _PATIENCE)

        assert _returns(wait, backend.close)
        waiter.close()

    def test_a_waiter_closed_unused_is_harmless(self, rig: Rig) -> None:
        _waiter(rig.backend, [rig.queue]).close()
        rig.add()

    def test_news_from_another_backend_on_the_same_store_rings(self, rig: Rig, second: Backend, waiter: Waiter) -> None:
        _quiet(waiter)
        assert _rings(waiter, lambda: second.enqueue([rig.new()]))


def _waiter(backend: Backend, queues: Sequence[str]) -> Waiter:
    if not isinstance(backend, Wakeups):
        pytest.skip(f"{type(backend).__name__} does not offer Wakeups")
    return backend.waiter(queues)


def _quiet(waiter: Waiter) -> None:
    """Connect it, and take in what was news until now; bounded, since an answer may be True for nothing."""
    for _ in range(20):
        if not waiter.wait(0.2):
            return


def _woken(waiter: Waiter) -> bool:
    """A wait that news must end answers True, well before its time-out; it may return early, and in vain, before."""
    deadline = time.monotonic() + _PATIENCE
    while (left := deadline - time.monotonic()) > 0.0:
        if waiter.wait(left):
            return True
    return False


def _rings(waiter: Waiter, ring: Callable[[], object]) -> bool:
    """Whether *ring* wakes a thread that waits already."""
    woken = threading.Event()
    entered = threading.Event()

    def wait() -> None:
        entered.set()
        if _woken(waiter):
            woken.set()

    thread = threading.Thread(target=wait, name="contract-waiter")
    thread.start()
    entered.wait(_PATIENCE)
    ring()
    thread.join(2 * _PATIENCE)
    return woken.is_set()


def _returns(wait: Callable[[], object], end: Callable[[], None]) -> bool:
    """Whether *end*, called here, ends *wait*, which a thread has begun."""
    entered = threading.Event()

    def run() -> None:
        entered.set()
        wait()

    thread = threading.Thread(
        target=run, name="contract-waiter", daemon=True
    )  # if it hangs, the test ends nevertheless
    thread.start()
    entered.wait(_PATIENCE)
    thread.join(0.05)  # most likely it waits by now; if not, the end must hold for the wait to come
    end()
    thread.join(_PATIENCE)
    return not thread.is_alive()
