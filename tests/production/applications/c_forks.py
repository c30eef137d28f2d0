"""A program that forks in C after it has used its producer, as uWSGI does: no hook of Python's runs in the children."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal

from scheduler import BackendClosed, Producer, backend_from_url

CHILDREN, JOBS = 4, 60

backend = backend_from_url(os.environ["JOBS"])
producer = Producer(backend)
producer.enqueue("quick")
waiter = backend.waiter(["bell"])  # type: ignore[attr-defined]  # every store here has them
waiter.wait(0.5)


def use() -> list[str]:
    ids = []
    for number in range(JOBS):
        job = producer.enqueue("quick", number).job
        assert producer.get("default", job.id).id == job.id, "an answer about another job"
        ids.append(job.id)
    return ids


pipes = []
for _ in range(CHILDREN):
    reading, writing = os.pipe()
    if ctypes.PyDLL(None).fork() == 0:
        signal.alarm(60)  # nothing else ends a deadlock
        os.close(reading)
        try:
            ids = use()
            with contextlib.suppress(BackendClosed):  # some stores refuse the parent's waiter here
                waiter.wait(0.05)  # the parent's, whose connection stays the parent's
            own = backend.waiter(["bell"])  # type: ignore[attr-defined]  # as above
            own.wait(0.5)
            own.close()
            backend.close()
            os.write(writing, json.dumps(ids).encode())
        finally:
            os._exit(0)
    os.close(writing)
    pipes.append(reading)
made = use()
for reading in pipes:
    with os.fdopen(reading) as end:
        made += json.loads(end.read())
for _ in pipes:
    os.wait()
while waiter.wait(0.1):
    pass
producer.enqueue("quick", queue="bell")
assert waiter.wait(10.0), "the parent's waiter still hears"
waiter.close()
backend.close()
print(json.dumps(made))
