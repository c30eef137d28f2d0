"""A program that enqueues from processes of `multiprocessing`: `multi.py fork|spawn|forkserver`."""

from __future__ import annotations

import multiprocessing
import os
import sys
import warnings

from scheduler import Producer, backend_from_url

warnings.filterwarnings("ignore", message=".*fork", category=DeprecationWarning)  # some drivers keep threads
producer = Producer(backend_from_url(os.environ["JOBS"]))


def enqueue(count: int) -> list[str]:
    return [producer.enqueue("quick").job.id for _ in range(count)]


if __name__ == "__main__":
    enqueue(1)  # connected before the processes are made
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        answers = pool.map_async(enqueue, [10] * 4)
        enqueue(9)
        assert len(set().union(*answers.get(60))) == 40
        pool.close()
        pool.join()
    print("done", flush=True)
