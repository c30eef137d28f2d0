"""Real signals in a process of its own, while the main thread is in run() or beside a background run."""

from __future__ import annotations

import pytest

from worker.scripts import run_python

HEAD = """
import faulthandler, os, signal, sys, threading, time
from scheduler import Producer, Worker
from scheduler.config import WorkerConfig
from scheduler.errors import *
from scheduler.jobs import NewJob
from scheduler.states import JobState
from scheduler_backends.memory import MemoryBackend

faulthandler.dump_traceback_later(100, exit=True)
backend = MemoryBackend()
producer = Producer(backend)
worker = Worker(backend, WorkerConfig(concurrency=4, queue_buffer=3, shutdown_grace=20.0))

def counts():
    return backend.stats(["default"])[0].counts

def until(condition):
    end, never = time.monotonic() + 60, threading.Event()
    while not condition():
        assert time.monotonic() < end
        never.wait(0.001)

def when_running(action):
    def wait_and_act():
        until(lambda: worker.running)
        action()
    thread = threading.Thread(target=wait_and_act)
    thread.start()
    return thread

def kill(number):
    os.kill(os.getpid(), number)
"""

STOPS = """
begun, go, answers = threading.Event(), threading.Event(), []

@worker.handler("work")
def work(job, ctx):
    begun.set()
    go.wait(20)

def on_term(number, frame):
    answers.append({call})
    go.set()

signal.signal(signal.SIGTERM, on_term)
for _ in range(20):
    producer.enqueue("work")

def act():
    begun.wait(20)
    kill(signal.SIGTERM)

thread = when_running(act)
report = worker.run()
thread.join()
now = counts()
assert report.abandoned == now[JobState.LEASED] == 0, report
assert report.settled + now[JobState.READY] == 20, (report, now)
print(answers)
"""


@pytest.mark.parametrize(
    ("call", "answer"), [("worker.stop()", False), ("worker.stop(5.0)", False), ("worker.request_stop()", None)]
)
def test_a_stop_in_a_signal_handler_while_main_is_in_run_only_asks(call: str, answer: object) -> None:
    assert run_python(HEAD + STOPS.format(call=call), timeout=110) == str([answer])


THOUSAND = """
caught = 0

def on_signal(number, frame):
    global caught
    caught += 1
    if caught > 1_000:
        worker.stop(15.0)
    worker.health  # whatever a program may do there

signal.signal(signal.SIGUSR1, on_signal)
worker.handle("work", lambda job, ctx: None)

def act():
    while worker.running:
        before = caught
        producer.enqueue("work")
        kill(signal.SIGUSR1)
        until = time.monotonic() + 0.01
        while caught == before and time.monotonic() < until:
            time.sleep(0.0001)

thread = when_running(act)
report = worker.run()
thread.join()
assert report.abandoned == counts()[JobState.LEASED] == 0
print(caught > 1_000)
"""


def test_a_thousand_signals_that_look_and_stop_deadlock_nothing() -> None:
    assert run_python(HEAD + THOUSAND.replace("    worker.health", "    worker.running"), timeout=110) == "True"


BESIDE = """
caught, answers = 0, []

def on_signal(number, frame):
    global caught
    caught += 1
    worker.request_stop() if caught % 2 else answers.append(worker.stop(0.001))

signal.signal(signal.SIGUSR1, on_signal)
held = threading.Event()
worker.handle("work", lambda job, ctx: held.wait(50))
producer.enqueue("work")
worker.start()

def shoot():
    for _ in range(1_000):
        before = caught
        kill(signal.SIGUSR1)
        until = time.monotonic() + 0.01
        while caught == before and time.monotonic() < until:
            time.sleep(0.0001)
    held.set()

shooter = threading.Thread(target=shoot)
shooter.start()
while not held.is_set():  # a stop under way on the main thread, in which the handlers stop again
    worker.stop(0.002)
shooter.join()
print(worker.stop(20.0), caught > 100)
"""


def test_stops_inside_stops_by_signals_deadlock_nothing_beside_a_background_run() -> None:
    assert run_python(HEAD + BESIDE, timeout=110) == "True True"


CTRL_C = """
begun, stays = threading.Semaphore(0), threading.Event()

@worker.handler("work")
def work(job, ctx):
    begun.release()
    stays.wait(0.3)

jobs = [producer.enqueue("work").job.id for _ in range(30)]

def act():
    for _ in range(6):
        begun.acquire(timeout=20)
    kill(signal.SIGINT)

thread = when_running(act)
try:
    worker.run()
except KeyboardInterrupt:
    thread.join()
    now = counts()
    back = backend.list("default", JobState.READY).jobs
    print(now[JobState.LEASED], {job.attempts for job in back}, len(back) > 10, worker.running)
"""


def test_ctrl_c_ends_the_run_in_order_and_is_raised() -> None:
    """What runs is recorded, what waits is given back without an attempt used."""
    assert run_python(HEAD + CTRL_C, timeout=60) == "0 {0} True False"


CTRL_C_OFTEN = """
import random
runs = {}

@worker.handler("work")
def work(job, ctx):
    runs[job.id] = runs.get(job.id, 0) + 1

ids, interrupted = [], 0
for number in range(60):
    ids += [answer.job.id for answer in backend.enqueue([NewJob(type="work") for _ in range(300)])]

    def act():
        time.sleep(random.uniform(0.0, 0.01))
        kill(signal.SIGINT)

    try:
        thread = when_running(act)
        worker.run()
    except KeyboardInterrupt:
        interrupted += 1
    thread.join()
    assert counts()[JobState.LEASED] == 0, counts()
worker.start()
until(lambda: not counts()[JobState.READY] and not counts()[JobState.LEASED])
assert worker.stop(20.0)
assert runs == dict.fromkeys(ids, 1)
print(interrupted)
"""


def test_ctrl_c_at_any_moment_of_a_busy_worker_loses_and_doubles_nothing() -> None:
    assert run_python(HEAD + CTRL_C_OFTEN, timeout=110) == "60"


CTRL_C_TWICE = """
begun, stays = threading.Event(), threading.Event()

@worker.handler("work")
def work(job, ctx):
    begun.set()
    stays.wait(50)

producer.enqueue("work")

def act():
    begun.wait(20)
    kill(signal.SIGINT)
    until(lambda: worker.health.stopping)
    kill(signal.SIGINT)

thread = when_running(act)
began = time.monotonic()
try:
    worker.run()
except KeyboardInterrupt:
    print("ended early" if time.monotonic() - began < 15 else "waited for the grace", worker.running)
thread.join()
stays.set()
"""


def test_a_second_ctrl_c_does_not_wait_for_the_handlers() -> None:
    assert run_python(HEAD + CTRL_C_TWICE, timeout=60) == "ended early False"


UNRELATED = """
caught = 0

def on_signal(number, frame):
    global caught
    caught += 1
    time.sleep(0.001)

signal.signal(signal.SIGALRM, on_signal)
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
done = []
worker = worker.with_config(poll_interval=0.01)
worker.handle("work", lambda job, ctx: done.append(job.id))
for _ in range(50):
    producer.enqueue("work", delay=0.001)

def act():
    until(lambda: len(done) == 50 and caught >= 300)
    worker.request_stop()

thread = when_running(act)
report = worker.run()
thread.join()
signal.setitimer(signal.ITIMER_REAL, 0.0)
print(report.settled, report.abandoned)
"""


def test_signals_that_concern_others_disturb_nothing() -> None:
    """Their handlers interrupt every wait of the main thread, over and over."""
    assert run_python(HEAD + UNRELATED, timeout=60) == "50 0"
