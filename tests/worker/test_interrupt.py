"""Raising inside a handler's thread: it lands in the handler or nowhere, and never costs the thread."""

from __future__ import annotations

import ctypes
import gc
import inspect
import logging
import random
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from io import StringIO
from queue import SimpleQueue

import pytest

from scheduler.abilities import TopologyAdmin, TransactionalEnqueue, Wakeups
from scheduler.backend import Backend
from scheduler.critical import critical
from scheduler.errors import JobInterrupted
from scheduler.logs import GuardedLogger
from scheduler.metrics import Metrics, guarded
from scheduler.producer import Producer
from scheduler.queues import Retention
from scheduler.states import JobState
from scheduler.testing import drain
from scheduler.worker.interrupt import Interruptible
from scheduler_backends.memory import MemoryBackend
from worker.harness import SOON, WorkerHarness


def test_what_returns_or_raises_by_itself_comes_through() -> None:
    assert Interruptible().run(lambda: 7) == (7, None)
    error = SystemExit(3)

    def leave() -> None:
        raise error

    assert Interruptible().run(leave) == (None, error)


def test_a_loop_that_never_looks_is_ended() -> None:
    started = threading.Event()

    def spin() -> None:
        started.set()
        while True:
            pass

    guards: Future[Interruptible] = Future()

    def work() -> BaseException | None:
        guard = Interruptible()
        guards.set_result(guard)
        return guard.run(spin)[1]

    with ThreadPoolExecutor(1) as pool:
        outcome = pool.submit(work)
        assert started.wait(SOON)
        guards.result(SOON).interrupt()
        assert isinstance(outcome.result(SOON), JobInterrupted)
        assert pool.submit(lambda: "the thread lives").result(SOON)


def test_an_interrupt_before_the_run_lands_in_it() -> None:
    guard = Interruptible()
    guard.interrupt()
    ran = []
    result, raised = guard.run(lambda: ran.append(1))
    assert isinstance(raised, JobInterrupted)
    assert (result, ran) == (None, [])


def test_an_interrupt_after_the_run_lands_nowhere() -> None:
    guard = Interruptible()
    assert guard.run(lambda: 1) == (1, None)
    guard.interrupt()
    for _ in range(1_000):
        time.monotonic()


def test_a_second_interrupt_does_nothing() -> None:
    """A handler that cleans up after the first is not interrupted in that."""
    guard = Interruptible()

    def handler() -> str:
        try:
            guard.interrupt()
            for _ in range(1_000):
                time.monotonic()
        except JobInterrupted:
            guard.interrupt()
            for _ in range(1_000):
                time.monotonic()
            return "cleaned up"
        return "not interrupted"

    assert guard.run(handler) == ("cleaned up", None)


# ---- where it does not land


class Target:
    """Runs *handler* on a thread of its own, where it can be interrupted."""

    def __init__(self, handler: Callable[[], object]) -> None:
        self._guards: Future[Interruptible] = Future()
        self._pool = ThreadPoolExecutor(1)
        self._outcome = self._pool.submit(self._run, handler)

    def _run(self, handler: Callable[[], object]) -> tuple[object, BaseException | None]:
        guard = Interruptible()
        self._guards.set_result(guard)
        return guard.run(handler)

    def interrupt(self) -> bool:
        return self._guards.result(SOON).interrupt()

    def outcome(self) -> tuple[object, BaseException | None]:
        """Once it has ended, interrupted again and again as the worker does."""
        while not self._outcome.done():
            self.interrupt()
            time.sleep(0.001)
        self._pool.shutdown()
        return self._outcome.result(SOON)


class Place:
    """Somewhere a thread stays until the test says so."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.over = False

    def stay(self) -> None:
        self.reached.set()
        end = time.monotonic() + SOON
        while not self.over and time.monotonic() < end:
            pass


def assert_interrupted_after(place: Place, handler: Callable[[], object]) -> None:
    """*handler* is interrupted once it has left the place, and not there."""
    target = Target(handler)
    assert place.reached.wait(SOON)
    assert not target.interrupt()
    place.over = True
    assert isinstance(target.outcome()[1], JobInterrupted)


def test_an_interrupt_waits_for_the_end_of_the_outermost_critical_section() -> None:
    place, ends = Place(), []

    @critical
    def inner() -> None:
        place.stay()

    @critical
    def outer() -> None:
        inner()
        ends.append("inner")
        for _ in range(1_000):
            time.monotonic()
        ends.append("outer")

    def handler() -> None:
        outer()
        ends.append("handler")

    target = Target(handler)
    assert place.reached.wait(SOON)
    assert not target.interrupt()
    place.over = True
    result, raised = target.outcome()
    assert isinstance(raised, JobInterrupted)
    assert (result, ends) == (None, ["inner", "outer"])


def test_what_a_critical_section_raised_is_the_context_of_the_interrupt() -> None:
    place = Place()

    @critical
    def fail() -> None:
        place.stay()
        raise ValueError

    target = Target(fail)
    assert place.reached.wait(SOON)
    target.interrupt()
    place.over = True
    _, raised = target.outcome()
    assert isinstance(raised, JobInterrupted)
    assert isinstance(raised.__context__, ValueError)


class Waits(Metrics):
    def __init__(self, place: Place) -> None:
        self.place = place

    def stuck(self, threads: int) -> None:
        self.place.stay()


class WaitsInLog(logging.Handler):
    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place

    def emit(self, record: logging.LogRecord) -> None:
        self.place.stay()


@pytest.mark.parametrize("guard", ["metrics", "logger"])
def test_a_guard_swallows_no_interrupt(guard: str) -> None:
    place = Place()
    logger = logging.Logger("guarded")  # noqa: LOG001 - seen by this test alone
    logger.addHandler(WaitsInLog(place))
    hooks = guarded(Waits(place), logger)
    act = {"metrics": lambda: hooks.stuck(1), "logger": lambda: GuardedLogger(logger).warning("x")}[guard]

    def handler() -> None:
        while True:
            act()

    assert_interrupted_after(place, handler)


def test_no_interrupt_lands_where_a_log_handlers_lock_is_taken() -> None:
    logger = logging.Logger("busy")  # noqa: LOG001 - seen by this test alone
    log_handler = logging.StreamHandler(StringIO())
    logger.addHandler(log_handler)
    assert log_handler.lock is not None
    started = threading.Event()

    def handler() -> None:
        started.set()
        while True:
            logger.warning("x")

    with log_handler.lock:
        target = Target(handler)
        assert started.wait(SOON)
        end = time.monotonic() + SOON
        while sys._current_frames()[target._guards.result(SOON)._thread].f_code.co_name not in ("acquire", "handle"):
            assert time.monotonic() < end
        assert not target.interrupt()
    assert isinstance(target.outcome()[1], JobInterrupted)
    assert log_handler.lock.acquire(timeout=SOON)


class Finalised:
    def __init__(self, place: Place) -> None:
        self._place = place

    def __del__(self) -> None:
        self._place.stay()


class Collected:
    """A callback of the garbage collector."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._place.stay()

    def method(self, phase: str, info: dict[str, int]) -> None:
        self(phase, info)


def finalise(place: Place) -> None:
    held = Finalised(place)
    del held


def finalise_weakly(place: Place) -> None:
    held = threading.Lock()  # anything that takes weak references
    weakref.finalize(held, place.stay)
    del held


def collect(callback: Callable[[str, dict[str, int]], None]) -> None:
    gc.callbacks.append(callback)
    try:
        gc.collect()
    finally:
        gc.callbacks.remove(callback)


@pytest.mark.parametrize(
    "enter",
    [
        finalise,
        finalise_weakly,
        pytest.param(lambda place: collect(Collected(place)), id="object for the collector"),
        pytest.param(lambda place: collect(Collected(place).method), id="method for the collector"),
        pytest.param(
            lambda place: collect(lambda phase, _: Collected(place)(phase, {})), id="function for the collector"
        ),
    ],
)
def test_no_interrupt_lands_where_python_would_drop_it(enter: Callable[[Place], None]) -> None:
    place = Place()

    def handler() -> None:
        enter(place)
        while True:
            pass

    assert_interrupted_after(place, handler)


def call_back(function: Callable[[], None]) -> None:
    """Python drops what a function raises that C has called back."""
    compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(lambda a, b: function() or 0)
    ctypes.CDLL(None).qsort((ctypes.c_int * 2)(1, 2), 2, ctypes.sizeof(ctypes.c_int), compare)


def forget(function: Callable[[], None]) -> None:
    """Python drops what the callback of a weak reference raises."""
    held = threading.Lock()
    watched = weakref.ref(held, lambda _: function())
    del held
    assert watched() is None


@pytest.mark.parametrize("enter", [call_back, forget])
def test_an_interrupt_that_python_dropped_is_raised_again(enter: Callable[[Callable[[], None]], None]) -> None:
    place = Place()
    dropped: list[bool] = []

    def stay() -> None:
        try:
            place.stay()
        except JobInterrupted:
            dropped.append(not place.over)
            raise

    def handler() -> None:
        enter(stay)
        while True:
            pass

    target = Target(handler)
    assert place.reached.wait(SOON)
    assert isinstance(target.outcome()[1], JobInterrupted)
    assert dropped == [True]


@pytest.mark.usefixtures("_switching_often")
def test_no_interrupt_is_lost_while_others_drop_exceptions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hook that learns of dropped interrupts is Python in the handler's thread itself."""
    monkeypatch.setattr(sys, "unraisablehook", lambda _: sum(range(20)))

    class Failing:
        def __del__(self) -> None:
            raise ValueError

    def handler() -> None:
        while True:
            failing = Failing()
            del failing
            for _ in range(100):
                pass

    for _ in range(20):
        assert isinstance(Target(handler).outcome()[1], JobInterrupted)


def test_a_run_ends_although_a_callback_receives_what_ends_its_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Since Python 3.12 a collection may start, and call back, just before an exception is delivered."""
    dropped: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: dropped.append(unraisable.exc_type))
    threshold = gc.get_threshold()
    gc.callbacks.append(called := lambda phase, info: [phase for _ in range(3)])
    gc.set_threshold(1, 1, 1)
    try:
        for _ in range(100):
            Target(lambda: [None for _ in iter(list, None)]).outcome()
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(called)
    assert not dropped


def test_a_handler_is_not_interrupted_inside_the_run_of_another() -> None:
    """Neither it nor the other, which would fail for it."""
    place = Place()
    inside: list[object] = []

    def handler() -> None:
        inside.append(Interruptible().run(place.stay))
        while True:
            pass

    assert_interrupted_after(place, handler)
    assert inside == [(None, None)]


def test_a_handler_that_drains_a_queue_is_interrupted_after_that() -> None:
    place, backend = Place(), MemoryBackend(retention=Retention(succeeded=60.0))

    def handler() -> None:
        drain(backend, {"t": lambda job, ctx: place.stay()})
        while True:
            pass

    enqueued = Producer(backend).enqueue("t")
    assert_interrupted_after(place, handler)
    assert backend.get("default", [enqueued.job.id])[enqueued.job.id].state is JobState.SUCCEEDED


def test_what_others_drop_is_reported_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    dropped: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: dropped.append(unraisable.exc_type))

    class Failing:
        def __del__(self) -> None:
            raise ValueError

    Target(lambda: [None for _ in iter(int, 1)]).outcome()
    failing = Failing()
    del failing
    assert dropped == [ValueError]


@pytest.mark.every_store
def test_every_call_of_a_store_is_a_critical_section(harness: WorkerHarness) -> None:
    """Wherever it is defined, in the class of the store or in one of those that it is made of."""
    kind = type(harness.backend.wrapped)
    abilities = (Wakeups, TopologyAdmin, TransactionalEnqueue)
    offered = [name for ability in abilities if issubclass(kind, ability) for name in vars(ability)]
    for name in {*vars(Backend), *offered}:
        if inspect.isfunction(getattr(kind, name, None)) and not name.startswith("_"):
            assert hasattr(getattr(kind, name), "__scheduler_critical__"), name


def test_a_failed_handler_is_not_kept_alive_by_its_traceback() -> None:
    """No circle of frames: what the handler held is gone as soon as its outcome is, without the collector's help."""

    class Held:
        pass

    gone = []

    def fail() -> None:
        held = Held()
        gone.append(weakref.ref(held))
        raise ValueError

    gc.collect()
    gc.disable()
    try:
        _, raised = Interruptible().run(fail)
        assert isinstance(raised, ValueError)
        del raised
        assert gone[0]() is None
    finally:
        gc.enable()


@pytest.fixture
def _switching_often() -> Iterator[None]:
    """Threads take turns every few microseconds, so that interrupts land anywhere."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(before)


def interrupted_at_random(runs: int, seconds: float) -> tuple[int, int]:
    """So many runs on four threads, each interrupted somewhere around its end; (how many ran, how many were hit)."""
    threads_before = threading.active_count()
    targets: SimpleQueue[Interruptible | None] = SimpleQueue()
    hit = done = 0
    lock = threading.Lock()  # guards hit and done

    def shoot() -> None:
        while (guard := targets.get()) is not None:
            for _ in range(random.randrange(200)):
                pass
            guard.interrupt()

    def one() -> None:
        nonlocal hit, done
        steps, guard = random.randrange(6_000), Interruptible()

        def handler() -> int:
            targets.put(guard)
            total = 0
            for _ in range(steps):
                total += 1
            return total

        result, raised = guard.run(handler)
        with lock:
            done += 1
            hit += raised is not None
        if raised is None:
            assert result == steps
        else:
            assert isinstance(raised, JobInterrupted)
            assert result in (None, steps)

    shooter = threading.Thread(target=shoot)
    shooter.start()
    end = time.monotonic() + seconds
    with ThreadPoolExecutor(4) as pool:
        futures = []
        for number in range(runs):
            futures.append(pool.submit(one))
            if number % 500 == 499:
                for future in futures:
                    future.result(SOON)  # raises what escaped from a run, and times out if a thread was lost
                futures.clear()
                if time.monotonic() > end:
                    break
        threads = [pool.submit(threading.get_ident) for _ in range(100)]
        assert {future.result(SOON) for future in threads}
    targets.put(None)
    shooter.join()
    assert threading.active_count() <= threads_before
    return done, hit


@pytest.mark.usefixtures("_switching_often")
def test_thousands_of_random_interrupts_lose_no_thread() -> None:
    done, hit = interrupted_at_random(10_000, seconds=6.0)
    assert done >= 1_000
    assert 20 < hit < done


@pytest.mark.long
@pytest.mark.usefixtures("_switching_often")
def test_a_hundred_thousand_random_interrupts_lose_no_thread() -> None:
    done, hit = interrupted_at_random(100_000, seconds=90.0)
    assert done == 100_000
    assert 200 < hit < done
