"""The ability Wakeups: events in the queues of a waiter wake it up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from typing import Any

import pytest

from scheduler.abilities import WAKE_HORIZON, Waiter, WakeReason, Wakeups
from scheduler.backend import Backend
from scheduler.errors import BackendClosed
from scheduler.leases import Failure
from scheduler.states import JobState
from scheduler.testing.contract.offered import needs
from scheduler.testing.contract.waiting import WAIT_TIMEOUT, quieten, returns, waiter_on, wakes, woken
from scheduler.testing.harness import LONG, BackendHarness
from scheduler.testing.job_states import in_state

_SOON = 0.2  # seconds; for so short a delay every store must wake an idle waiter
_WITHIN = WAKE_HORIZON - 5.0  # later due times need not wake a waiter


def _nothing(_: BackendHarness) -> None: ...


def _paused(harness: BackendHarness) -> None:
    harness.add()
    harness.backend.pause(harness.queue)


# For each event: how to prepare it, how to cause it, and the expected reason of the wake-up.
_EVENTS: Mapping[str, tuple[Callable[[BackendHarness], Any], Callable[[BackendHarness, Any], object], WakeReason]] = {
    "enqueue": (_nothing, lambda harness, _: harness.add(), WakeReason.JOBS_READY),
    "enqueue for soon": (_nothing, lambda harness, _: harness.add(delay=_SOON), WakeReason.EARLIER_DUE_TIME),
    "enqueue sooner than the next": (
        lambda harness: harness.add(delay=LONG),
        lambda harness, _: harness.add(delay=_SOON),
        WakeReason.EARLIER_DUE_TIME,
    ),
    "enqueue within the horizon": (
        _nothing,
        lambda harness, _: harness.add(delay=_WITHIN),
        WakeReason.EARLIER_DUE_TIME,
    ),
    "retry within the horizon": (
        lambda harness: harness.leased(),
        lambda harness, lease: harness.backend.retry([Failure(lease=lease, delay=_WITHIN)]),
        WakeReason.EARLIER_DUE_TIME,
    ),
    "retry for soon": (
        lambda harness: harness.leased(),
        lambda harness, lease: harness.backend.retry([Failure(lease=lease, delay=_SOON)]),
        WakeReason.EARLIER_DUE_TIME,
    ),
    "retry for now": (
        lambda harness: harness.leased(),
        lambda harness, lease: harness.backend.retry([Failure(lease=lease)]),
        WakeReason.JOBS_READY,
    ),
    "release": (
        lambda harness: harness.leased(),
        lambda harness, lease: harness.backend.release([lease]),
        WakeReason.JOBS_READY,
    ),
    "requeue": (
        lambda harness: in_state(harness, JobState.DEAD)[0],
        lambda harness, job: harness.backend.requeue(job.queue, [job.id]),
        WakeReason.JOBS_READY,
    ),
    "resume": (_paused, lambda harness, _: harness.backend.resume(harness.queue), WakeReason.JOBS_READY),
}


@needs(Wakeups)
class WakeupsContract:
    @pytest.fixture
    def waiter(self, harness: BackendHarness) -> Iterator[Waiter]:
        """Open a waiter on the harness's queue, or skip the test."""
        with closing(waiter_on(harness.backend, [harness.queue])) as waiter:
            yield waiter

    @pytest.mark.parametrize("event", sorted(_EVENTS))
    def test_an_event_ends_a_wait(self, harness: BackendHarness, waiter: Waiter, event: str) -> None:
        prepare, act, kind = _EVENTS[event]
        prepared = prepare(harness)
        quieten(waiter)
        assert wakes(waiter, lambda: act(harness, prepared), kind), f"{event} did not wake the waiter"

    @pytest.mark.parametrize("event", sorted(_EVENTS))
    def test_an_event_between_two_waits_is_not_lost(self, harness: BackendHarness, waiter: Waiter, event: str) -> None:
        prepare, act, kind = _EVENTS[event]
        prepared = prepare(harness)
        quieten(waiter)
        act(harness, prepared)
        assert woken(waiter, kind)

    def test_a_recovered_job_wakes_a_waiter(self, harness: BackendHarness, waiter: Waiter) -> None:
        harness.leased(harness.span)
        harness.wait(1.1 * harness.span)
        quieten(waiter)
        assert wakes(waiter, harness.recover)

    def test_every_waiter_of_a_queue_wakes_up(self, harness: BackendHarness, waiter: Waiter) -> None:
        with closing(waiter_on(harness.backend, [harness.new_queue(), harness.queue])) as other:
            quieten(waiter)
            quieten(other)
            harness.add()
            assert woken(waiter)
            assert woken(other)

    def test_each_queue_of_a_waiter_wakes_it(self, harness: BackendHarness) -> None:
        queues = [harness.new_queue(), harness.new_queue(), harness.new_queue("odd *:{x} {}")]
        with closing(waiter_on(harness.backend, queues)) as waiter:
            for queue in queues:
                quieten(waiter)
                harness.add(queue=queue)
                assert woken(waiter)

    def test_a_wait_without_events_ends_at_its_time_out(self, waiter: Waiter) -> None:
        quieten(waiter)
        started = time.monotonic()
        waiter.wait(0.1)
        waiter.wait(0.0)
        assert time.monotonic() - started < WAIT_TIMEOUT

    def test_an_idle_waiter_does_not_spin(self, waiter: Waiter) -> None:
        """Spurious wake-ups are allowed, but must not repeat without a pause."""
        quieten(waiter)
        deadline = time.monotonic() + 0.5
        waits = 0
        while time.monotonic() < deadline:
            waiter.wait(0.25)
            waits += 1
        assert waits <= 50

    def test_an_interrupt_ends_the_present_wait(self, waiter: Waiter) -> None:
        quieten(waiter)
        assert returns(lambda: waiter.wait(10 * WAIT_TIMEOUT), waiter.interrupt)

    def test_an_interrupt_before_a_wait_ends_the_next_one(self, waiter: Waiter) -> None:
        quieten(waiter)
        waiter.interrupt()
        started = time.monotonic()
        waiter.wait(10 * WAIT_TIMEOUT)
        assert time.monotonic() - started < WAIT_TIMEOUT

    def test_closing_a_waiter_ends_its_wait_and_may_be_done_twice(self, waiter: Waiter) -> None:
        quieten(waiter)

        def wait() -> None:
            with suppress(BackendClosed):
                waiter.wait(10 * WAIT_TIMEOUT)

        assert returns(wait, waiter.close)
        waiter.close()

    def test_closing_the_backend_ends_every_wait(self, harness: BackendHarness) -> None:
        backend = harness.another()
        waiter = waiter_on(backend, [harness.queue])
        quieten(waiter)

        def wait() -> None:
            with suppress(BackendClosed):
                waiter.wait(10 * WAIT_TIMEOUT)

        assert returns(wait, backend.close)
        waiter.close()

    def test_a_waiter_closed_unused_is_harmless(self, harness: BackendHarness) -> None:
        waiter_on(harness.backend, [harness.queue]).close()
        harness.add()

    def test_an_enqueue_by_another_backend_wakes_a_waiter(
        self, harness: BackendHarness, second: Backend, waiter: Waiter
    ) -> None:
        quieten(waiter)
        assert wakes(waiter, lambda: second.enqueue([harness.new()]))
