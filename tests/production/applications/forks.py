"""A program that forks as uWSGI does: backend, producer and a worker at work before, and children that enqueue."""

from __future__ import annotations

import os
import sys
import warnings

import steady

from scheduler import Producer, SchedulerError

CHILDREN, JOBS = 4, 100

warnings.filterwarnings("ignore", message=".*fork", category=DeprecationWarning)  # which is what this is for
producer = Producer(steady.backend)
worker = steady.worker
producer.enqueue("quick")
worker.start()
while worker.health.held == 0:
    steady.never.wait(0.01)

children = []
for _ in range(CHILDREN):
    child = os.fork()
    if child == 0:
        assert not worker.running
        assert not worker.health.running
        assert worker.stop(5.0)  # nothing runs here, so there is nothing to wait for
        for _ in range(JOBS):
            producer.enqueue("quick")
        with worker:  # and may run here as well
            assert worker.running
        sys.exit(0)  # as a program ends, exit handlers and all
    children.append(child)
for _ in range(JOBS - 1):
    producer.enqueue("quick")
statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
assert statuses == [0] * CHILDREN, statuses
assert worker.running
try:
    worker.run()
except SchedulerError:
    print("children have ended", flush=True)
while not steady.go.exists():
    steady.never.wait(0.02)
assert worker.stop()
