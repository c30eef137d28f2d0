"""Process that leases all jobs of the queues on its standard input, prints their number, and waits to be killed."""

from __future__ import annotations

import sys
import time

from scheduler.identity import new_token
from scheduler.plugins import backend_from_url


def main(url: str, seconds: float) -> None:
    """Lease the jobs for *seconds*. Ends when the process is killed."""
    backend = backend_from_url(url)
    queues = sys.stdin.read().split()
    held = 0
    while leases := backend.lease(queues, token=new_token(), worker_id="holder", duration=seconds, limit=1_000):
        held += len(leases)
    print(held, flush=True)
    time.sleep(3_600)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
