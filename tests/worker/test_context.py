"""What a handler is given: its deadline, its data, and whether it should end."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from scheduler.errors import InterruptReason, JobInterrupted
from scheduler.jobs import Job, Priority
from scheduler.serializers import JsonSerializer
from scheduler.states import JobState
from scheduler.worker.context import JobContext, current_job
from worker.harness import SOON
from worker.scripts import run_python

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def a_job(*, payload: bytes = b"", timeout: float = 30.0) -> Job:
    return Job(
        id="1",
        queue="default",
        type="work",
        payload=payload,
        state=JobState.LEASED,
        priority=Priority.NORMAL,
        run_at=NOW,
        created_at=NOW,
        max_retries=3,
        timeout=timeout,
        attempts=1,
    )


def a_context(*, payload: bytes = b"", timeout: float = 30.0, age: float = 0.0) -> JobContext:
    """Of a run that began *age* seconds ago."""
    ctx = JobContext(a_job(payload=payload, timeout=timeout), JsonSerializer().loads)
    ctx._started -= age
    return ctx


def test_the_deadline_counts_from_the_start_by_the_jobs_own_timeout() -> None:
    before = datetime.now(UTC)
    ctx = a_context(timeout=30.0)
    assert 29.0 < ctx.remaining() <= 30.0
    assert before + timedelta(seconds=29) < ctx.deadline <= datetime.now(UTC) + timedelta(seconds=30)
    assert ctx.deadline.tzinfo is UTC


def test_what_remains_is_negative_after_the_deadline() -> None:
    ctx = a_context(timeout=5.0, age=7.0)
    assert -2.5 < ctx.remaining() < -1.9


def test_a_timeout_of_a_hundred_years_has_a_deadline() -> None:
    assert a_context(timeout=100 * 365.25 * 86_400.0).deadline.year > 2100


def test_data_is_the_payload_decoded_at_each_access() -> None:
    ctx = a_context(payload=b'{"n": [1]}')
    first = ctx.data
    assert first == {"n": [1]}
    first["n"].append(2)
    assert ctx.data == {"n": [1]}


def test_no_payload_is_no_data_and_nonsense_raises_where_it_is_asked_for() -> None:
    assert a_context().data is None
    with pytest.raises(ValueError, match="Expecting"):
        _ = a_context(payload=b"{").data


def test_an_uncancelled_context_lets_the_handler_go_on() -> None:
    ctx = a_context()
    ctx.check()
    assert (ctx.reason, ctx.cancelled_at, ctx.cancelled.is_set()) == (None, None, False)


@pytest.mark.parametrize("reason", ["timeout", "lease lost", "stopping"])
@pytest.mark.parametrize("looked_before", [True, False])
def test_a_cancel_sets_the_event_and_makes_check_raise(reason: InterruptReason, *, looked_before: bool) -> None:
    """Whether or not the handler asked for the event before it was cancelled."""
    ctx = a_context()
    if looked_before:
        assert not ctx.cancelled.is_set()
    ctx.cancel(reason)
    assert ctx.cancelled.is_set()
    with pytest.raises(JobInterrupted) as raised:
        ctx.check()
    assert raised.value.reason == reason
    assert not isinstance(raised.value, Exception)


def test_the_first_reason_and_moment_stay() -> None:
    ctx = a_context()
    ctx.cancel("lease lost")
    at = ctx.cancelled_at
    ctx.cancel("timeout")
    assert (ctx.reason, ctx.cancelled_at) == ("lease lost", at)


def test_check_raises_after_the_deadline_though_nobody_cancelled_yet() -> None:
    ctx = a_context(timeout=5.0, age=5.1)
    with pytest.raises(JobInterrupted) as raised:
        ctx.check()
    assert raised.value.reason == ctx.reason == "timeout"
    assert ctx.cancelled.is_set()


def test_a_handler_asleep_on_the_event_wakes_at_the_cancel() -> None:
    ctx = a_context()
    with ThreadPoolExecutor(4) as pool:
        asleep = [pool.submit(ctx.cancelled.wait, SOON) for _ in range(4)]
        ctx.cancel("stopping")
        assert all(one.result(SOON) for one in asleep)


def test_who_is_to_be_interrupted_is_so_once_even_if_it_comes_late() -> None:
    ctx, calls = a_context(), []
    ctx.on_cancel(lambda: calls.append(1))
    ctx.cancel("timeout")
    ctx.cancel("stopping")
    assert calls == [1]
    ctx.on_cancel(lambda: calls.append(2))
    assert calls == [1, 2]


def test_threads_that_look_and_cancel_at_once_agree() -> None:
    for _ in range(300):
        ctx, start = a_context(), threading.Barrier(3)

        def look(ctx: JobContext = ctx, start: threading.Barrier = start) -> threading.Event:
            start.wait(SOON)
            return ctx.cancelled

        def cancel(ctx: JobContext = ctx, start: threading.Barrier = start) -> None:
            start.wait(SOON)
            ctx.cancel("timeout")

        with ThreadPoolExecutor(3) as pool:
            looks, cancelled = [pool.submit(look), pool.submit(look)], pool.submit(cancel)
            cancelled.result(SOON)
            events = {id(one.result(SOON)) for one in looks}
        assert events == {id(ctx.cancelled)}
        assert ctx.cancelled.is_set()


def test_there_is_no_current_job_outside_of_handlers() -> None:
    assert current_job() is None


FORK = """
import os, threading
from scheduler.serializers import JsonSerializer
from scheduler.worker.context import JobContext

class Job:
    timeout = 30.0

held, done = threading.Event(), threading.Event()
other = JobContext(Job(), JsonSerializer().loads)

def hold():
    with other._lock:
        held.set()
        done.wait()

holder = threading.Thread(target=hold)
holder.start()
held.wait()
child = os.fork()
if child == 0:
    ctx = JobContext(Job(), JsonSerializer().loads)
    ctx.cancel("timeout")
    os._exit(0 if ctx.cancelled.is_set() else 1)
done.set()
holder.join()
print(os.waitpid(child, 0)[1])
"""


def test_a_fork_while_another_context_is_busy_leaves_the_childs_contexts_usable() -> None:
    """Guarantee 27: no lock that a thread of the parent holds is waited for in the child."""
    assert run_python(FORK, timeout=30) == "0"
