"""
Makes every move of fifty jobs, again and again, in a child that is killed at some moment; and so KILLS times.

Tells, in one write each, which fifty ids the store has acknowledged, and of each kill.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
from collections.abc import Sequence

from scheduler import Backend, NewJob, backend_from_url
from scheduler.identity import new_token
from scheduler.jobs import ErrorDetail
from scheduler.leases import Completion, Failure, Lease

QUEUE = "default"
JOBS = 50
ERROR = ErrorDetail(kind="Error", message="as was to be shown")


def move(backend: Backend, child: int) -> None:
    """All moves of fifty jobs after the other, for ever."""
    turn = 0
    while True:
        turn += 1
        names = [f"{child}-{turn}-{number}" for number in range(JOBS)]
        # One in two is due a moment later, so that there is something to promote.
        backend.enqueue([NewJob(type="t", id=id, max_retries=100, delay=0.001 * (n % 2)) for n, id in enumerate(names)])
        os.write(1, f"acknowledged {child}-{turn}\n".encode())
        backend.retry([Failure(lease=lease, error=ERROR) for lease in lease_all(backend)])
        backend.release(lease_all(backend))
        lease_all(backend, duration=0.001)
        backend.recover_expired([QUEUE], 1_000)
        held = lease_all(backend)
        backend.bury([Failure(lease=lease, error=ERROR) for lease in held[:25]])
        backend.requeue(QUEUE, names)
        backend.renew(held[25:], 1.0)
        backend.complete([Completion(lease=lease, result=b"done") for lease in held[25:]])


def lease_all(backend: Backend, duration: float = 1.0) -> Sequence[Lease]:
    backend.promote_due([QUEUE], 1_000)
    return list(backend.lease([QUEUE], token=new_token(), worker_id="mover", duration=duration, limit=1_000))


def main(kills: int) -> None:
    # Forked, which takes a hundredth of a start; this process has neither threads nor connections.
    for child in range(kills):
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                backend = backend_from_url(os.environ["JOBS"])
                backend.ping()
                os.write(writer, b"1")
                move(backend, child)
            except BaseException:
                sys.excepthook(*sys.exc_info())
            os._exit(1)
        os.close(writer)
        os.read(reader, 1)
        os.close(reader)
        threading.Event().wait(random.uniform(0.0, 0.15))
        os.kill(pid, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
        os.write(1, b"killed\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
