"""Life: what a backend says of itself, ping, close, and other objects and processes on the same store."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable

import pytest

from scheduler.abilities import TopologyAdmin, TransactionalEnqueue, Wakeups
from scheduler.backend import METHODS, Backend
from scheduler.errors import BackendClosed
from scheduler.identity import new_token
from scheduler.leases import Completion, Failure
from scheduler.queues import Retention
from scheduler.states import JobState
from scheduler.testing.contract.fixtures import OpenHarness
from scheduler.testing.contract.offered import SHARED_STORE, needs
from scheduler.testing.harness import LONG, BackendHarness

_CHILDREN = 4
_JOBS = 25


class LifeContract:
    def test_ping_returns(self, harness: BackendHarness) -> None:
        harness.backend.ping()
        harness.backend.ping()

    def test_a_backend_has_the_retention_it_was_opened_with(self, open_harness: OpenHarness) -> None:
        """A worker encodes results only where they are kept."""
        retention = Retention(succeeded=7.0, cancelled=8.0, dead=9.0)
        assert open_harness(retention).backend.retention == retention

    def test_a_closed_backend_refuses_every_call_and_closes_twice(self, harness: BackendHarness) -> None:
        lease = harness.leased()
        closed = harness.another()
        closed.ping()
        closed.close()
        closed.close()
        calls: dict[str, Callable[[], object]] = {
            "enqueue": lambda: closed.enqueue([harness.new()]),
            "promote_due": lambda: closed.promote_due([harness.queue], 1),
            "lease": lambda: closed.lease([harness.queue], token=new_token(), worker_id="w", duration=LONG, limit=1),
            "renew": lambda: closed.renew([lease], LONG),
            "complete": lambda: closed.complete([Completion(lease=lease)]),
            "retry": lambda: closed.retry([Failure(lease=lease)]),
            "bury": lambda: closed.bury([Failure(lease=lease)]),
            "release": lambda: closed.release([lease]),
            "recover_expired": lambda: closed.recover_expired([harness.queue], 1),
            "cancel": lambda: closed.cancel(harness.queue, ["j"]),
            "requeue": lambda: closed.requeue(harness.queue, ["j"]),
            "get": lambda: closed.get(harness.queue, ["j"]),
            "list": lambda: closed.list(harness.queue, JobState.READY),
            "stats": closed.stats,
            "pause": lambda: closed.pause(harness.queue),
            "resume": lambda: closed.resume(harness.queue),
            "purge": lambda: closed.purge(harness.queue, JobState.DEAD, 1),
            "trim": lambda: closed.trim([harness.queue], 1),
            "ping": closed.ping,
        }
        assert set(calls) == set(METHODS) - {"close"}
        calls |= _calls_of_abilities(closed, harness)
        for method, call in calls.items():
            try:
                call()
            except BackendClosed:
                continue
            pytest.fail(f"{method} works on a closed backend")
        assert harness.job(lease.job.id) == lease.job

    @needs(Wakeups)
    def test_nothing_waits_on_a_closed_backend(self, harness: BackendHarness) -> None:
        """Not even with a waiter that was made before."""
        closed = harness.another()
        if not isinstance(closed, Wakeups):
            pytest.skip(f"{type(closed).__name__} does not offer Wakeups")
        waiter = closed.waiter([harness.queue])
        closed.close()
        with pytest.raises(BackendClosed):
            waiter.wait(0.0)
        with pytest.raises(BackendClosed):
            closed.waiter([harness.queue]).wait(0.0)

    def test_a_backend_closed_unused_is_harmless(self, harness: BackendHarness) -> None:
        harness.another().close()
        harness.backend.ping()

    def test_a_second_backend_sees_and_does_all_that_the_first_does(
        self, harness: BackendHarness, second: Backend
    ) -> None:
        harness.add(payload=b"work")
        harness.promote()
        (lease,) = second.lease([harness.queue], token=new_token(), worker_id="second", duration=LONG, limit=10)
        assert lease.job == harness.job(lease.job.id)
        assert not harness.backend.renew([lease], 2 * LONG).refused
        assert list(harness.lease_once()) == []
        assert not second.complete([Completion(lease=lease, result=b"done")])
        assert list(harness.backend.complete([Completion(lease=lease)])) == [lease]
        assert harness.job(lease.job.id).result == b"done"
        assert dict(harness.backend.stats([harness.queue])[0].counts) == dict(second.stats([harness.queue])[0].counts)

    def test_a_pause_holds_for_every_backend_at_once(self, harness: BackendHarness, second: Backend) -> None:
        harness.add()
        harness.lease()
        harness.add()
        harness.promote()
        second.stats([harness.queue])  # it knows the queue as not paused
        harness.backend.pause(harness.queue)
        assert list(second.lease([harness.queue], token=new_token(), worker_id="w", duration=LONG, limit=9)) == []
        second.resume(harness.queue)
        assert len(harness.lease()) == 1

    def test_a_cursor_works_on_another_backend(self, harness: BackendHarness, second: Backend) -> None:
        harness.add_many(5, delay=LONG)
        page = harness.backend.list(harness.queue, JobState.SCHEDULED, limit=2)
        here = harness.backend.list(harness.queue, JobState.SCHEDULED, cursor=page.cursor, limit=2)
        assert second.list(harness.queue, JobState.SCHEDULED, cursor=page.cursor, limit=2) == here

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
    @needs(SHARED_STORE)
    def test_forked_children_and_their_parent_use_it_side_by_side(self, harness: BackendHarness) -> None:
        """
        Guarantee 27: no connection and no lock is shared with a child.

        A store and a producer made before a fork go on working.
        """
        if harness.backend.in_process:
            pytest.skip("the jobs live within one process (in_process)")
        harness.add(id="before")
        children = [_fork(lambda: _enqueue_some(harness)) for _ in range(_CHILDREN)]
        try:
            _enqueue_some(harness)
        finally:
            codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        assert codes == [0] * _CHILDREN
        assert sum(harness.counts().values()) == 1 + _JOBS * (_CHILDREN + 1)
        assert len(harness.lease()) == 1 + _JOBS * (_CHILDREN + 1)


def _calls_of_abilities(backend: Backend, harness: BackendHarness) -> dict[str, Callable[[], object]]:
    calls: dict[str, Callable[[], object]] = {}
    if isinstance(backend, TopologyAdmin):
        calls["topology"] = lambda: backend.topology(harness.queue)
        calls["promote_queue_version"] = lambda: backend.promote_queue_version(harness.queue, 9, 3)
        calls["complete_draining_version"] = lambda: backend.complete_draining_version(harness.queue, 1)
    if isinstance(backend, TransactionalEnqueue):  # whatever the connection is: it is not looked at
        calls["enqueue_with"] = lambda: backend.enqueue_with(None, [harness.new()])
        calls["enqueue_with nothing"] = lambda: backend.enqueue_with(None, [])
    return calls


def _enqueue_some(harness: BackendHarness) -> None:
    for _ in range(_JOBS):
        harness.add()


def _fork(work: Callable[[], None]) -> int:
    with warnings.catch_warnings():
        # Newer Pythons warn of forking while threads run: that it works with ours is the point.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        return child
    try:
        work()
        code = 0
    except BaseException:  # noqa: BLE001 - whatever it is, it must not run the rest of the parent's tests
        code = 1
    os._exit(code)
