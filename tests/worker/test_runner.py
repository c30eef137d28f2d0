"""What becomes of a run: every verdict, without a thread and without a store."""

from __future__ import annotations

import logging
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from scheduler.config import WorkerConfig
from scheduler.errors import Discard, InterruptReason, JobInterrupted, Retry, Snooze
from scheduler.identity import new_token
from scheduler.jobs import Job, Priority
from scheduler.leases import Completion, Failure, Lease
from scheduler.limits import MAX_DELAY, MAX_RESULT
from scheduler.logs import GuardedLogger
from scheduler.metrics import CountingMetrics, Metrics
from scheduler.queues import Retention
from scheduler.retry import LONGEST_DELAY, Delays, RetryPolicy
from scheduler.serializers import JsonSerializer, Serializer
from scheduler.states import JobState
from scheduler.worker.context import JobContext, current_job
from scheduler.worker.handlers import Handler, HandlerFunction, Handlers
from scheduler.worker.outcome import Outcome, Verdict
from scheduler.worker.runner import JobRunner
from scheduler.worker.threads import Run
from scheduler_backends.memory import MemoryBackend
from worker.hostile import HOSTILE, name_of
from worker.test_context import NOW


def a_lease(**fields: object) -> Lease:
    job = Job(
        **{  # type: ignore[arg-type]  # by name
            "id": "1",
            "queue": "default",
            "type": "work",
            "payload": b"",
            "state": JobState.LEASED,
            "priority": Priority.NORMAL,
            "run_at": NOW,
            "created_at": NOW,
            "max_retries": 3,
            "timeout": 30.0,
            "attempts": 1,
            **fields,
        }
    )
    return Lease(job=job, token=new_token(), expires_at=NOW + timedelta(seconds=30))


def a_runner(
    function: HandlerFunction | None = None,
    *,
    retry_policy: Delays | None = None,
    interrupt: bool = False,
    keep_results: bool = True,
    serializer: Serializer | None = None,
    metrics: Metrics | None = None,
    worker_policy: Delays | None = None,
    **config: object,
) -> JobRunner:
    handlers = Handlers()
    if function is not None:
        handlers.register("work", Handler(function=function, retry_policy=retry_policy, interrupt=interrupt))
    run = Run(
        MemoryBackend(retention=Retention(succeeded=3_600.0 if keep_results else 0.0)),
        WorkerConfig(retry_policy=worker_policy or RetryPolicy(), **config),  # type: ignore[arg-type]  # by name
        metrics or CountingMetrics(),
        GuardedLogger(logging.getLogger("tests.runner")),
    )
    return JobRunner(run, handlers, serializer or JsonSerializer())


def run(function: HandlerFunction, lease: Lease | None = None, **options: object) -> Outcome:
    lease = lease or a_lease()
    runner = a_runner(function, **options)  # type: ignore[arg-type]  # by name
    return runner.run(lease, runner.open(lease.job))


def raising(error: BaseException | type[BaseException]) -> HandlerFunction:
    def handler(job: Job, ctx: JobContext) -> None:
        raise error

    return handler


def failure(outcome: Outcome) -> Failure:
    assert isinstance(outcome.request, Failure)
    return outcome.request


def kind(outcome: Outcome) -> str:
    error = failure(outcome).error
    assert error is not None
    return error.kind


# ---- a handler returns


def test_returning_is_success() -> None:
    lease = a_lease()
    assert run(lambda job, ctx: None, lease) == (Verdict.COMPLETE, Completion(lease=lease))


def test_the_handler_gets_the_job_and_its_context() -> None:
    seen = []
    lease = a_lease(payload=b"[1, 2]")
    run(lambda job, ctx: seen.append((job, ctx.job, ctx.data, current_job())), lease)
    assert seen == [(lease.job, lease.job, [1, 2], lease.job)]


def test_a_result_is_encoded_where_results_are_kept() -> None:
    outcome = run(lambda job, ctx: {"sent": True})
    assert isinstance(outcome.request, Completion)
    assert outcome.request.result == b'{"sent":true}'


def test_no_result_is_encoded_where_none_is_kept() -> None:
    class Encodes(JsonSerializer):
        def dumps(self, value: object) -> bytes:
            raise AssertionError("encoded in vain")

    outcome = run(lambda job, ctx: {"sent": True}, keep_results=False, serializer=Encodes())
    assert isinstance(outcome.request, Completion)
    assert outcome.request.result is None


@pytest.mark.parametrize(
    "result", [object(), float("nan"), {1, 2}, "\ud800", lambda: None, b"x" * (MAX_RESULT + 1), "y" * MAX_RESULT]
)
def test_a_result_that_cannot_be_kept_is_dropped_with_a_warning_and_the_job_succeeds(
    result: object, caplog: pytest.LogCaptureFixture
) -> None:
    outcome = run(lambda job, ctx: result)
    assert isinstance(outcome.request, Completion)
    assert (outcome.verdict, outcome.request.result) == (Verdict.COMPLETE, None)
    assert "result of job 1 (work) is dropped" in caplog.text


@pytest.mark.parametrize("encoded", ["text", None, 5, bytearray(b"x")], ids=repr)
def test_a_serializer_that_makes_no_bytes_costs_the_result_alone(
    encoded: object, caplog: pytest.LogCaptureFixture
) -> None:
    class Makes(JsonSerializer):
        def dumps(self, value: object) -> bytes:
            return encoded  # type: ignore[return-value]  # what the test is about

    outcome = run(lambda job, ctx: "result", serializer=Makes())
    assert isinstance(outcome.request, Completion)
    assert (outcome.verdict, outcome.request.result) == (Verdict.COMPLETE, None)
    assert "result of job 1 (work) is dropped" in caplog.text


def test_the_largest_result_is_kept() -> None:
    outcome = run(lambda job, ctx: b"x" * MAX_RESULT)
    assert isinstance(outcome.request, Completion)
    assert outcome.request.result == b"x" * MAX_RESULT


@pytest.mark.parametrize("error", [RuntimeError, SystemExit, KeyboardInterrupt])
def test_a_serializer_that_raises_anything_costs_the_result_alone(error: type[BaseException]) -> None:
    class Broken(JsonSerializer):
        def dumps(self, value: object) -> bytes:
            raise error

    assert run(lambda job, ctx: 1, serializer=Broken()).verdict is Verdict.COMPLETE


async def _coroutine() -> None: ...


def _generator() -> Iterator[int]:
    yield 1


async def _async_generator() -> AsyncIterator[int]:
    yield 1


class Awaitable:
    def __await__(self) -> Iterator[None]:
        yield None


@pytest.mark.parametrize("make", [_coroutine, _generator, _async_generator, Awaitable])
def test_returning_what_nobody_runs_is_a_failure_by_the_handlers_policy(make: Callable[[], object]) -> None:
    """Guarantee 15: a plain function that returns an awaitable or a generator has not done its work."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # also the one about coroutines that were never awaited
        outcome = run(lambda job, ctx: make(), retry_policy=RetryPolicy.fixed(7.0))
    assert (outcome.verdict, kind(outcome), failure(outcome).delay) == (Verdict.RETRY, "InvalidHandler", 7.0)


def test_a_result_that_raises_when_looked_at_costs_itself_alone() -> None:
    """As a lazy object does, whose __class__ is worked out at the first look. The handler has done its work."""

    class Lazy:
        @property  # type: ignore[misc]  # the purpose
        def __class__(self) -> type:
            raise RuntimeError("outside of its context")

    assert run(lambda job, ctx: Lazy()).verdict is Verdict.COMPLETE


# ---- a handler raises


@pytest.mark.parametrize("make", HOSTILE, ids=name_of)
def test_any_exception_is_a_failed_attempt(make: Callable[[], BaseException]) -> None:
    """Guarantees 13 and 14: of whatever class, and whatever it does when it is looked at."""
    outcome = run(raising(make()), retry_policy=RetryPolicy.fixed(5.0))
    assert outcome.verdict is Verdict.RETRY
    assert (failure(outcome).delay, failure(outcome).counted) == (5.0, True)
    assert kind(outcome)


@pytest.mark.parametrize(("max_retries", "runs"), [(0, 1), (1, 2), (3, 4)])
def test_n_retries_are_n_plus_one_runs(max_retries: int, runs: int) -> None:
    """Guarantee 11."""
    verdicts = [
        run(raising(ValueError), a_lease(max_retries=max_retries, attempts=attempt)).verdict
        for attempt in range(1, runs + 1)
    ]
    assert verdicts == [Verdict.RETRY] * max_retries + [Verdict.BURY]


def test_the_error_of_the_last_attempt_is_recorded_too() -> None:
    outcome = run(raising(ValueError("last")), a_lease(max_retries=0))
    error = failure(outcome).error
    assert error is not None
    assert (error.kind, error.message) == ("ValueError", "last")
    assert "test_runner" in error.traceback


class Broken:
    """A policy of a user's own whose code fails, or answers nonsense."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def delay(self, attempt: int) -> float:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer  # type: ignore[return-value]  # the purpose

    def __len__(self) -> int:
        return 0  # as falsy as an object can be


def test_the_jobs_policy_comes_first_then_the_handlers_then_the_workers() -> None:
    of_job, of_handler, of_worker = (RetryPolicy.fixed(seconds) for seconds in (1.0, 2.0, 3.0))

    def delay(job: RetryPolicy | None, handler: RetryPolicy | None) -> float:
        runner = a_runner(raising(ValueError), retry_policy=handler, worker_policy=of_worker)
        lease = a_lease(retry_policy=job)
        return failure(runner.run(lease, runner.open(lease.job))).delay

    assert delay(of_job, of_handler) == delay(of_job, None) == 1.0
    assert delay(None, of_handler) == 2.0
    assert delay(None, None) == 3.0


def test_a_policy_that_is_falsy_is_a_policy() -> None:
    assert failure(run(raising(ValueError), retry_policy=Broken(5.0))).delay == 5.0


@pytest.mark.parametrize("answer", [ValueError(), SystemExit(), float("nan"), -1.0, "soon", None, 10**400])
def test_a_faulty_policy_leads_to_a_sane_delay(answer: object) -> None:
    """Guarantee 10: it never loses the job."""
    outcome = run(raising(ValueError), retry_policy=Broken(answer))
    assert outcome.verdict is Verdict.RETRY
    assert 0.0 < failure(outcome).delay <= LONGEST_DELAY


@pytest.mark.parametrize("answer", [float("inf"), 10**9 * 1.0, 10**30 * 1.0])
def test_a_huge_delay_is_cut(answer: float) -> None:
    assert 0.0 < failure(run(raising(ValueError), retry_policy=Broken(answer))).delay <= LONGEST_DELAY


def test_delays_grow_with_the_attempts_used() -> None:
    delays = [
        failure(run(raising(ValueError), a_lease(attempts=attempt), retry_policy=RetryPolicy(jitter=0.0))).delay
        for attempt in (1, 2, 3)
    ]
    assert delays == [1.0, 2.0, 4.0]


# ---- a handler signals


def test_retry_asks_for_its_own_delay() -> None:
    outcome = run(raising(Retry("busy", delay=12.5)), retry_policy=RetryPolicy.fixed(5.0))
    assert (outcome.verdict, failure(outcome).delay, failure(outcome).counted) == (Verdict.RETRY, 12.5, True)
    error = failure(outcome).error
    assert error is not None
    assert (error.kind, error.message) == ("Retry", "busy")


def test_retry_without_a_delay_waits_by_the_policy() -> None:
    assert failure(run(raising(Retry()), retry_policy=RetryPolicy.fixed(5.0))).delay == 5.0


def test_retry_at_the_last_attempt_is_the_end() -> None:
    assert run(raising(Retry(delay=1.0)), a_lease(max_retries=0)).verdict is Verdict.BURY


def test_snooze_uses_no_attempt_and_records_no_error() -> None:
    outcome = run(raising(Snooze(60.0)), a_lease(max_retries=0))
    lease = failure(outcome).lease
    assert outcome == (Verdict.RETRY, Failure(lease=lease, delay=60.0, error=None, counted=False))


@pytest.mark.parametrize(("asked", "kept"), [(-5.0, 0.0), (0, 0.0), (10**30, MAX_DELAY), (float("inf"), MAX_DELAY)])
def test_delays_that_are_numbers_are_kept_within_bounds(asked: float, kept: float) -> None:
    """The past is due now; for ever is a hundred years."""
    assert failure(run(raising(Snooze(asked)))).delay == kept
    assert failure(run(raising(Retry(delay=asked)))).delay == kept


NONSENSE = [float("nan"), "5", None, timedelta(seconds=5), Decimal(5), True, [5]]


@pytest.mark.parametrize("delay", NONSENSE)
def test_a_snooze_without_a_number_is_a_failed_attempt(delay: object) -> None:
    """Put back at once it would come again and again, for ever."""
    outcome = run(raising(Snooze(delay)), retry_policy=RetryPolicy.fixed(5.0))  # type: ignore[arg-type]  # as a user may
    assert (outcome.verdict, failure(outcome).delay, failure(outcome).counted) == (Verdict.RETRY, 5.0, True)
    assert kind(outcome) == "scheduler.errors.Snooze"


@pytest.mark.parametrize("delay", NONSENSE)
def test_a_retry_without_a_number_waits_by_the_policy(delay: object) -> None:
    outcome = run(raising(Retry(delay=delay)), retry_policy=RetryPolicy.fixed(5.0))  # type: ignore[arg-type]  # as a user may
    assert failure(outcome).delay == 5.0


class BareRetry(Retry):
    """A subclass that forgets its parent."""

    def __init__(self) -> None: ...


class BareSnooze(Snooze):
    def __init__(self) -> None: ...


class RaisingRetry(Retry):
    @property
    def delay(self) -> float:
        raise RuntimeError("no delay")

    @delay.setter
    def delay(self, value: object) -> None: ...


@pytest.mark.parametrize("error", [BareRetry(), BareSnooze(), RaisingRetry()])
def test_a_signal_that_carries_no_delay_is_a_failed_attempt(error: BaseException) -> None:
    outcome = run(raising(error), retry_policy=RetryPolicy.fixed(5.0))
    assert (outcome.verdict, failure(outcome).delay, failure(outcome).counted) == (Verdict.RETRY, 5.0, True)


def test_discard_is_dead_at_once_whatever_attempts_are_left() -> None:
    outcome = run(raising(Discard("no such user")), a_lease(max_retries=24))
    error = failure(outcome).error
    assert error is not None
    assert (outcome.verdict, error.kind, error.message) == (Verdict.BURY, "Discard", "no such user")


# ---- a handler is interrupted


def interrupted(reason: InterruptReason, lease: Lease | None = None) -> Outcome:
    def handler(job: Job, ctx: JobContext) -> None:
        ctx.cancel(reason)
        ctx.check()

    return run(handler, lease)


def test_interrupted_at_the_timeout_is_a_failed_attempt() -> None:
    outcome = interrupted("timeout")
    error = failure(outcome).error
    assert error is not None
    assert (outcome.verdict, error.kind, failure(outcome).counted) == (Verdict.RETRY, "JobTimeout", True)
    assert "timeout of 30 s" in error.message
    assert "ctx.check()" in error.traceback
    assert interrupted("timeout", a_lease(max_retries=0)).verdict is Verdict.BURY


@pytest.mark.parametrize("reason", ["stopping", "lease lost"])
def test_interrupted_by_a_stop_or_a_lost_lease_gives_the_job_back(reason: InterruptReason) -> None:
    """Of a lost lease nothing reaches the store: see the in-flight table."""
    lease = a_lease()
    assert interrupted(reason, lease) == (Verdict.RELEASE, lease)


@pytest.mark.parametrize("reason", ["timeout", "stopping", "lease lost"])
def test_an_interruption_of_the_handlers_own_making_is_a_failed_attempt(reason: InterruptReason) -> None:
    """Given back without an attempt it would come again and again, for ever."""
    outcome = run(raising(JobInterrupted(reason)))
    assert (outcome.verdict, failure(outcome).counted) == (Verdict.RETRY, True)


def test_a_handler_that_catches_the_interruption_and_returns_has_succeeded() -> None:
    def handler(job: Job, ctx: JobContext) -> None:
        ctx.cancel("timeout")
        try:
            ctx.check()
        except JobInterrupted:
            return

    assert run(handler).verdict is Verdict.COMPLETE


def test_a_cancel_interrupts_a_handler_that_asked_for_it() -> None:
    def handler(job: Job, ctx: JobContext) -> None:
        ctx.cancel("timeout")
        while True:
            pass

    outcome = run(handler, interrupt=True)
    assert (outcome.verdict, kind(outcome)) == (Verdict.RETRY, "JobTimeout")


def test_a_cancel_before_the_handler_began_interrupts_it_too() -> None:
    def handler(job: Job, ctx: JobContext) -> None:
        while True:
            pass

    lease, runner = a_lease(), a_runner(handler, interrupt=True)
    ctx = runner.open(lease.job)
    ctx.cancel("stopping")
    assert runner.run(lease, ctx) == (Verdict.RELEASE, lease)


def test_a_thread_that_was_given_up_is_recorded_with_its_stack() -> None:
    outcome = a_runner(lambda job, ctx: None).timed_out(a_lease(timeout=2.5), "File one, line 2")
    error = failure(outcome).error
    assert error is not None
    assert (outcome.verdict, error.kind, error.traceback) == (Verdict.RETRY, "JobTimeout", "File one, line 2")
    assert "2.5 s" in error.message


# ---- one run beside the next

LANGUAGE: ContextVar[str] = ContextVar("language", default="none")


def test_what_one_job_sets_in_its_context_does_not_reach_the_next() -> None:
    seen = []

    def handler(job: Job, ctx: JobContext) -> None:
        seen.append(LANGUAGE.get())
        LANGUAGE.set("fr")

    runner, lease = a_runner(handler), a_lease()
    for _ in range(2):
        runner.run(lease, runner.open(lease.job))
    assert seen == ["none", "none"]
    assert LANGUAGE.get() == "none"
    assert current_job() is None


def test_metrics_are_called_at_the_start_and_at_the_end_with_its_verdict() -> None:
    heard: list[tuple[object, ...]] = []

    class Hears(Metrics):
        def started(self, job: Job) -> None:
            heard.append(("started", job.id))

        def finished(self, job: Job, operation: str, seconds: float) -> None:
            heard.append(("finished", job.id, operation, 0.0 <= seconds < 30.0))

    run(raising(ValueError), metrics=Hears())
    assert heard == [("started", "1"), ("finished", "1", "retry", True)]


def test_payloads_and_results_reach_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    lease = a_lease(payload=b'"secret-payload"', max_retries=0)
    run(raising(ValueError("x")), lease)
    run(lambda job, ctx: {"secret-result"}, lease)
    run(lambda job, ctx: _generator(), lease)
    assert caplog.records
    assert "secret" not in caplog.text


# ---- what the log says of a failure


def logged(caplog: pytest.LogCaptureFixture) -> logging.LogRecord:
    (record,) = (record for record in caplog.records if record.name == "tests.runner")
    return record


def test_the_log_says_why_a_job_failed_and_of_which_job_it_speaks(caplog: pytest.LogCaptureFixture) -> None:
    run(raising(ValueError("no such customer")), a_lease(attempts=2))
    record = logged(caplog)
    assert "Job 1 (work) failed (attempt 2 of 4)" in record.getMessage()
    assert record.getMessage().endswith("ValueError: no such customer")
    assert {name: getattr(record, name) for name in ("job_id", "job_type", "queue", "attempt")} == {
        "job_id": "1",
        "job_type": "work",
        "queue": "default",
        "attempt": 2,
    }
    assert record.exc_info is None


@pytest.mark.parametrize(("reason", "message"), [("500", "500"), ("", "ConnectionError: the gateway is down")])
def test_the_reason_of_a_retry_and_its_cause_are_logged_and_recorded(
    reason: str, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    def handler(job: Job, ctx: JobContext) -> None:
        try:
            raise ConnectionError("the gateway is down")
        except ConnectionError as error:
            raise Retry(reason) from error

    error = failure(run(handler)).error
    assert error is not None
    assert (error.kind, error.message) == ("Retry", message)
    assert "ConnectionError: the gateway is down" in error.traceback
    assert logged(caplog).getMessage().endswith(f"Retry: {message}")


@pytest.mark.parametrize("denied", [False, True])
def test_what_was_being_handled_is_a_cause_too_unless_it_is_denied(*, denied: bool) -> None:
    def handler(job: Job, ctx: JobContext) -> None:
        try:
            raise ConnectionError("the gateway is down")
        except ConnectionError:
            if denied:
                raise Discard("gone") from None
            raise Discard("gone")  # noqa: B904 - what the test is about

    error = failure(run(handler)).error
    assert error is not None
    assert ("ConnectionError" in error.traceback) is not denied
    assert error.message == "gone"


@pytest.mark.parametrize("signal", [Retry("later"), Discard("never")])
def test_a_signal_without_a_cause_records_no_traceback(signal: Exception) -> None:
    error = failure(run(raising(signal))).error
    assert error is not None
    assert error.traceback == ""


@pytest.mark.parametrize("error", [ValueError("no such customer"), Discard("no such customer")])
def test_a_dead_job_is_logged_with_its_traceback(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    run(raising(error), a_lease(max_retries=0))
    record = logged(caplog)
    assert record.levelno == logging.ERROR
    assert record.getMessage().endswith("no such customer")
    assert record.exc_info
    assert record.exc_info[1] is error


def test_each_failure_has_its_traceback_where_debugging_is_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "tests.runner")
    run(raising(ValueError("x")))
    assert logged(caplog).exc_info


def test_messages_and_tracebacks_can_be_kept_out_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(JsonSerializer):
        def dumps(self, value: object) -> bytes:
            raise TypeError("a secret")

    caplog.set_level(logging.DEBUG, "tests.runner")
    for error in (ValueError("a secret"), Retry("a secret"), Discard("a secret")):
        for retries in (0, 3):
            run(raising(error), a_lease(max_retries=retries), log_errors="kind")
    run(lambda job, ctx: object(), serializer=Failing(), log_errors="kind")
    assert len(caplog.records) == 7
    assert "secret" not in caplog.text
    assert all(record.exc_info is None for record in caplog.records)
    assert "ValueError" in caplog.text


def test_a_message_stays_one_line_of_bounded_length(caplog: pytest.LogCaptureFixture) -> None:
    text = "first\nsecond\u2028third\u202efourth\x1b[31m" + "x" * 100_000
    run(raising(ValueError(text)), a_lease(id="a\u202eb"))
    message = logged(caplog).getMessage()
    assert message.isprintable()
    assert "first\\nsecond\\u2028third\\u202efourth\\x1b[31m" in message
    assert "Job a\\u202eb (work)" in message
    assert len(message) < 1_200


@pytest.mark.parametrize("make", HOSTILE, ids=map(name_of, HOSTILE))
def test_no_exception_costs_the_line_that_reports_it(make: Callable[[], BaseException], tmp_path: Path) -> None:
    """Handlers of logging drop a line whose traceback they cannot format or encode."""
    logger = logging.getLogger("tests.runner")
    handler = logging.FileHandler(tmp_path / "log", encoding="utf-8")
    logger.addHandler(handler)
    try:
        run(raising(make()), a_lease(max_retries=0))
    finally:
        logger.removeHandler(handler)
        handler.close()
    assert "Job 1 (work) is dead" in (tmp_path / "log").read_text()
