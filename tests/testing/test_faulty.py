"""Tests of `faulty`."""

from __future__ import annotations

import threading

import pytest

from examples.own_backend import DictBackend
from scheduler.abilities import TopologyAdmin, TransactionalEnqueue, Wakeups
from scheduler.backend import Backend
from scheduler.errors import BackendUnavailable, ConfigError
from scheduler.jobs import NewJob
from scheduler.queues import Retention
from scheduler.testing import ManualClock, faulty
from scheduler_backends.memory import MemoryBackend

WAIT_TIMEOUT = 20.0


def stored(backend: Backend) -> int:
    return sum(sum(row.counts.values()) for row in backend.stats())


def test_without_faults_it_is_the_backend_it_wraps() -> None:
    clock = ManualClock()
    inner = MemoryBackend(clock=clock, retention=Retention(dead=5.0))
    outer = faulty(inner)
    (result,) = outer.enqueue([NewJob(type="a", id="x")])
    assert result.job == inner.get("default", ["x"])["x"]
    assert outer.get("default", ["x"]) == inner.get("default", ["x"])
    assert (outer.retention, outer.in_process) == (Retention(dead=5.0), True)
    assert outer.clock is clock
    outer.clock = other = ManualClock()
    assert inner.clock is other


@pytest.mark.parametrize("kind", [DictBackend, MemoryBackend])
def test_it_has_exactly_the_abilities_of_what_it_wraps(kind) -> None:
    inner = kind()
    outer = faulty(inner)
    assert isinstance(outer, Backend)
    for ability in (Wakeups, TopologyAdmin, TransactionalEnqueue):
        assert isinstance(outer, ability) == isinstance(inner, ability)
    assert hasattr(outer, "clock")
    with pytest.raises(NotImplementedError):
        type(outer).from_url("memory://")


def test_a_fault_before_the_effect_does_nothing_and_is_over_after_one_call() -> None:
    backend = faulty(DictBackend())
    backend.faults.before("enqueue")
    job = NewJob(type="a")
    with pytest.raises(BackendUnavailable):
        backend.enqueue([job])
    assert stored(backend) == 0
    assert backend.enqueue([job])[0].is_new
    assert backend.faults.count("enqueue") == 2


def test_a_fault_after_the_effect_loses_the_answer_alone() -> None:
    backend = faulty(DictBackend())
    backend.faults.after("enqueue")
    with pytest.raises(BackendUnavailable):
        backend.enqueue([NewJob(type="a")])
    assert stored(backend) == 1


def test_the_nth_call_fails_so_many_times() -> None:
    backend = faulty(DictBackend())
    backend.faults.before("ping", nth=3, times=2)
    failed = []
    for number in range(1, 7):
        try:
            backend.ping()
        except BackendUnavailable:
            failed.append(number)
    assert failed == [3, 4]


def test_an_outage_lasts_until_it_is_cleared_and_covers_every_method() -> None:
    backend = faulty(MemoryBackend())
    waiter = backend.waiter(["default"])
    backend.faults.before(times=None)
    calls = [backend.ping, backend.stats, lambda: waiter.wait(0.0), lambda: backend.topology("default")]
    for call in calls * 3:
        with pytest.raises(BackendUnavailable):
            call()
    backend.faults.clear()
    for call in calls:
        call()
    waiter.interrupt()
    waiter.close()


def test_any_error_can_be_raised() -> None:
    backend = faulty(DictBackend())
    backend.faults.before("ping", error=lambda: SystemExit(3))
    with pytest.raises(SystemExit):
        backend.ping()


def test_of_two_faults_the_older_strikes_and_both_count_the_call() -> None:
    backend = faulty(DictBackend())
    backend.faults.before("enqueue", nth=2)
    backend.faults.after("enqueue", nth=2, times=2)
    backend.enqueue([NewJob(type="a")])
    for expected in (1, 2):
        with pytest.raises(BackendUnavailable):
            backend.enqueue([NewJob(type="a")])
        assert stored(backend) == expected
    backend.enqueue([NewJob(type="a")])


def test_a_blocked_call_waits_until_it_is_released() -> None:
    backend = faulty(DictBackend())
    gate = backend.faults.block("enqueue")
    thread = threading.Thread(target=backend.enqueue, args=([NewJob(type="a")],))
    thread.start()
    assert gate.entered.wait(WAIT_TIMEOUT)
    assert stored(backend) == 0
    gate.release()
    thread.join(WAIT_TIMEOUT)
    assert not thread.is_alive()
    assert stored(backend) == 1


def test_clear_lets_blocked_calls_go_on() -> None:
    backend = faulty(DictBackend())
    gate = backend.faults.block("ping", times=None)
    threads = [threading.Thread(target=backend.ping) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert gate.entered.wait(WAIT_TIMEOUT)
    assert backend.faults.wait_for("ping", calls=3, timeout=WAIT_TIMEOUT)
    backend.faults.clear()
    for thread in threads:
        thread.join(WAIT_TIMEOUT)
    assert not any(thread.is_alive() for thread in threads)


def test_calls_are_recorded_with_their_arguments_and_waited_for() -> None:
    backend = faulty(DictBackend())
    assert not backend.faults.wait_for("ping", timeout=0.01)
    thread = threading.Thread(target=backend.pause, args=("q",))
    thread.start()
    assert backend.faults.wait_for("pause", timeout=WAIT_TIMEOUT)
    thread.join(WAIT_TIMEOUT)
    backend.list("q", "ready", limit=7)
    first, second = backend.faults.calls
    assert (first.method, first.args, first.kwargs) == ("pause", ("q",), {})
    assert (second.method, second.args, second.kwargs) == ("list", ("q", "ready"), {"limit": 7})
    assert backend.faults.count() == 2
    assert backend.faults.count("pause", "list", "ping") == 2


def test_a_name_that_no_call_has_is_refused() -> None:
    """Otherwise the planned fault would never happen."""
    backend = faulty(DictBackend())
    for plan in (backend.faults.before, backend.faults.after, backend.faults.block, backend.faults.count):
        with pytest.raises(ConfigError):
            plan("laese")
    with pytest.raises(ConfigError):
        backend.faults.before("topology")  # which this backend does not offer
    for numbers in ({"nth": 0}, {"times": 0}):
        with pytest.raises(ConfigError):
            backend.faults.before("ping", **numbers)


def test_many_threads_share_one_plan() -> None:
    backend = faulty(DictBackend())
    backend.faults.before("ping", nth=50, times=50)
    failures = []

    def call() -> None:
        for _ in range(50):
            try:
                backend.ping()
            except BackendUnavailable:
                failures.append(1)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_TIMEOUT)
    assert (len(failures), backend.faults.count("ping")) == (50, 200)
