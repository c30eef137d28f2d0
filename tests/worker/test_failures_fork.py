"""What must never happen: what a fork leaves in the child (guarantee 27). Each in a program of its own."""

from __future__ import annotations

from worker.scripts import run_python

NOT_RUNNING = """
import os, threading
from scheduler import Producer, Worker
from scheduler.config import WorkerConfig
from scheduler_backends.memory import MemoryBackend

backend = MemoryBackend()
worker = Worker(backend, WorkerConfig(concurrency=2))
done = threading.Semaphore(0)
worker.handle("work", lambda job, ctx: done.release())
worker.start()
Producer(backend).enqueue("work")
assert done.acquire(timeout=20)
children = []
for _ in range(4):
    child = os.fork()
    if child == 0:
        health = worker.health
        said = (worker.running, health.running, health.leasing, health.held, worker.stop(5.0))
        # And it can be run there: with threads, locks and a stop of its own.
        worker.start()
        Producer(backend).enqueue("work")
        ran = done.acquire(timeout=20)
        ended = worker.stop(20.0)
        os._exit(0 if said == (False, False, False, 0, True) and ran and ended else 1)
    children.append(child)
statuses = [os.waitpid(child, 0)[1] for child in children]
assert worker.running
Producer(backend).enqueue("work")
assert done.acquire(timeout=20)
assert worker.stop(20.0)
print(statuses)
"""

IN_A_HANDLER = """
import os, threading
from scheduler import Producer, Worker
from scheduler.config import WorkerConfig
from scheduler_backends.memory import MemoryBackend

backend = MemoryBackend()
worker = Worker(backend, WorkerConfig(concurrency=4, queue_buffer=3))
statuses, over = [], threading.Semaphore(0)

def forks(job, ctx):
    child = os.fork()
    if child == 0:
        # The only thread of this process, and none of a run's.
        other = Worker(MemoryBackend(), WorkerConfig(concurrency=1))
        other.handle("work", lambda job, ctx: ctx.check())
        Producer(other.backend).enqueue("work")
        with other:
            pass
        os._exit(0 if worker.stop(5.0) and not worker.running and not other.running else 1)
    statuses.append(os.waitpid(child, 0)[1])

worker.handle("forks", forks)
worker.handle("work", lambda job, ctx: ctx.cancelled)
producer = Producer(backend)
worker.start()
for _ in range(10):
    producer.enqueue("forks", max_retries=0)
    for _ in range(50):
        producer.enqueue("work")
while worker.health.held or len(statuses) < 10:
    threading.Event().wait(0.01)
assert worker.stop(20.0)
print(statuses)
"""

PRODUCERS = """
import os
from scheduler import Producer, Worker
from scheduler.config import WorkerConfig
from scheduler.identity import new_id, new_token
from scheduler_backends.memory import MemoryBackend

producer = Producer(MemoryBackend())
producer.enqueue("work")
pipes = []
for _ in range(4):
    read, write = os.pipe()
    if os.fork() == 0:
        jobs = [producer.enqueue("work").job for _ in range(100)]
        made = [job.id for job in jobs] + [new_token() for _ in range(100)]
        os.write(write, ",".join(made).encode())
        os._exit(0)
    os.close(write)
    pipes.append(read)
own = [producer.enqueue("work").job.id for _ in range(100)] + [new_token() for _ in range(100)]
for read in pipes:
    with os.fdopen(read) as file:
        own += file.read().split(",")
    os.wait()
print(len(own), len(set(own)))
"""


def test_a_worker_started_before_a_fork_says_in_the_child_that_it_is_not_running() -> None:
    """Guarantee 27: and can be started there, without a lock that the parent's threads held."""
    assert run_python(NOT_RUNNING, timeout=110) == "[0, 0, 0, 0]"


def test_a_handler_may_fork_and_the_child_start_a_worker_of_its_own() -> None:
    assert run_python(IN_A_HANDLER, timeout=110) == str([0] * 10)


def test_ids_and_tokens_of_parent_and_children_never_meet() -> None:
    """Guarantee 27: four children and their parent make a hundred jobs and tokens each."""
    assert run_python(PRODUCERS, timeout=60) == "1000 1000"
