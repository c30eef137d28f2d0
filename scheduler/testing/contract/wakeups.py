"""The ability Wakeups: a waiter is rung when there is news of its queues."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from typing import Any

import pytest

from scheduler.backend import WAKE_HORIZON, Backend, News, Waiter, Wakeups
from scheduler.errors import BackendClosed
from scheduler.leases import Failure
from scheduler.states import JobState
from scheduler.testing.contract.offered import needs
from scheduler.testing.contract.waiting import PATIENCE, quieten, returns, rings, waiter_on, woken
from scheduler.testing.rig import LONG, Rig
from scheduler.testing.situations import in_state

_SOON = 0.2  # seconds: a delay for which any store must wake a waiter that thinks nothing is due
_WITHIN = WAKE_HORIZON - 5.0  # beyond it a waiter may be silent


def _nothing(_: Rig) -> None: ...


def _paused(rig: Rig) -> None:
    rig.add()
    rig.backend.pause(rig.queue)


# What rings → how to get there, what then rings, and with which news.
_NEWS: Mapping[str, tuple[Callable[[Rig], Any], Callable[[Rig, Any], object], News]] = {
    "enqueue": (_nothing, lambda rig, _: rig.add(), News.READY),
    "enqueue for soon": (_nothing, lambda rig, _: rig.add(delay=_SOON), News.SOONER),
    "enqueue sooner than the next": (
        lambda rig: rig.add(delay=LONG),
        lambda rig, _: rig.add(delay=_SOON),
        News.SOONER,
    ),
    "enqueue within the horizon": (_nothing, lambda rig, _: rig.add(delay=_WITHIN), News.SOONER),
    "retry within the horizon": (
        lambda rig: rig.leased(),
        lambda rig, lease: rig.backend.retry([Failure(lease=lease, delay=_WITHIN)]),
        News.SOONER,
    ),
    "retry for soon": (
        lambda rig: rig.leased(),
        lambda rig, lease: rig.backend.retry([Failure(lease=lease, delay=_SOON)]),
        News.SOONER,
    ),
    "retry for now": (
        lambda rig: rig.leased(),
        lambda rig, lease: rig.backend.retry([Failure(lease=lease)]),
        News.READY,
    ),
    "release": (lambda rig: rig.leased(), lambda rig, lease: rig.backend.release([lease]), News.READY),
    "requeue": (
        lambda rig: in_state(rig, JobState.DEAD)[0],
        lambda rig, job: rig.backend.requeue(job.queue, [job.id]),
        News.READY,
    ),
    "resume": (_paused, lambda rig, _: rig.backend.resume(rig.queue), News.READY),
}


@needs(Wakeups)
class WakeupsContract:
    @pytest.fixture
    def waiter(self, rig: Rig) -> Iterator[Waiter]:
        """A waiter on the rig's queue, or a skip."""
        with closing(waiter_on(rig.backend, [rig.queue])) as waiter:
            yield waiter

    @pytest.mark.parametrize("news", sorted(_NEWS))
    def test_news_ends_a_wait(self, rig: Rig, waiter: Waiter, news: str) -> None:
        prepare, ring, kind = _NEWS[news]
        prepared = prepare(rig)
        quieten(waiter)
        assert rings(waiter, lambda: ring(rig, prepared), kind), f"{news} did not wake the waiter"

    @pytest.mark.parametrize("news", sorted(_NEWS))
    def test_news_between_two_waits_is_not_lost(self, rig: Rig, waiter: Waiter, news: str) -> None:
        prepare, ring, kind = _NEWS[news]
        prepared = prepare(rig)
        quieten(waiter)
        ring(rig, prepared)
        assert woken(waiter, kind)

    def test_a_recovered_job_rings(self, rig: Rig, waiter: Waiter) -> None:
        rig.leased(rig.span)
        rig.wait(1.1 * rig.span)
        quieten(waiter)
        assert rings(waiter, rig.recover)

    def test_every_waiter_is_rung(self, rig: Rig, waiter: Waiter) -> None:
        with closing(waiter_on(rig.backend, [rig.new_queue(), rig.queue])) as other:
            quieten(waiter)
            quieten(other)
            rig.add()
            assert woken(waiter)
            assert woken(other)

    def test_any_of_a_waiter_s_queues_rings(self, rig: Rig) -> None:
        queues = [rig.new_queue(), rig.new_queue(), rig.new_queue("odd *:{x} {}")]
        with closing(waiter_on(rig.backend, queues)) as waiter:
            for queue in queues:
                quieten(waiter)
                rig.add(queue=queue)
                assert woken(waiter)

    def test_a_wait_without_news_ends_at_its_time_out(self, waiter: Waiter) -> None:
        quieten(waiter)
        started = time.monotonic()
        waiter.wait(0.1)
        waiter.wait(0.0)
        assert time.monotonic() - started < PATIENCE

    def test_an_idle_waiter_does_not_spin(self, waiter: Waiter) -> None:
        """It may return early, but not at once for ever."""
        quieten(waiter)
        deadline = time.monotonic() + 0.5
        waits = 0
        while time.monotonic() < deadline:
            waiter.wait(0.25)
            waits += 1
        assert waits <= 50

    def test_an_interrupt_ends_the_present_wait(self, waiter: Waiter) -> None:
        quieten(waiter)
        assert returns(lambda: waiter.wait(10 * PATIENCE), waiter.interrupt)

    def test_an_interrupt_before_a_wait_ends_the_next_one(self, waiter: Waiter) -> None:
        quieten(waiter)
        waiter.interrupt()
        started = time.monotonic()
        waiter.wait(10 * PATIENCE)
        assert time.monotonic() - started < PATIENCE

    def test_closing_a_waiter_ends_its_wait_and_may_be_done_twice(self, waiter: Waiter) -> None:
        quieten(waiter)

        def wait() -> None:
            with suppress(BackendClosed):
                waiter.wait(10 * PATIENCE)

        assert returns(wait, waiter.close)
        waiter.close()

    def test_closing_the_backend_ends_every_wait(self, rig: Rig) -> None:
        backend = rig.another()
        waiter = waiter_on(backend, [rig.queue])
        quieten(waiter)

        def wait() -> None:
            with suppress(BackendClosed):
                waiter.wait(10 * PATIENCE)

        assert returns(wait, backend.close)
        waiter.close()

    def test_a_waiter_closed_unused_is_harmless(self, rig: Rig) -> None:
        waiter_on(rig.backend, [rig.queue]).close()
        rig.add()

    def test_news_from_another_backend_on_the_same_store_rings(self, rig: Rig, second: Backend, waiter: Waiter) -> None:
        quieten(waiter)
        assert rings(waiter, lambda: second.enqueue([rig.new()]))
