"""A producer's process: `python -m chaos.office URL FOLDER NAME RATE`. Writes down what the store acknowledged."""

from __future__ import annotations

import random
import signal
import sys
import threading
from pathlib import Path

from chaos.jobs import draw_job
from chaos.ledger import Ledger
from scheduler.errors import BackendError, BackendUnavailable
from scheduler.jobs import NewJob
from scheduler.plugins import backend_from_url
from scheduler.producer import Producer

_BATCH = 5
_PAUSE_AFTER_FAILURE = 0.1  # seconds


class Office:
    """Enqueues batches at a rate of jobs a second; repeats what was not acknowledged until it is."""

    def __init__(self, producer: Producer, ledger: Ledger, name: str, rate: float) -> None:
        self._producer = producer
        self._ledger = ledger
        self._chance = random.Random(name)
        self._pause = _BATCH / rate
        self.stopping = threading.Event()

    def run(self) -> None:
        """Until `stopping`, and until the last batch is acknowledged."""
        while not self.stopping.wait(self._pause):
            self._submit([draw_job(self._producer, self._chance) for _ in range(_BATCH)])

    def _submit(self, jobs: list[NewJob]) -> None:
        repeated = False
        while jobs:
            try:
                answers = self._producer.enqueue_many(jobs)
            except BackendUnavailable as error:
                repeated, jobs = True, list(error.jobs)
            except BackendError:  # a full or loading server says no in many words
                repeated = True
            else:
                ids = [f"{answer.job.queue}/{answer.job.id}" for answer in answers]
                self._ledger.write("acknowledged", ids=ids, kinds=[job.type for job in jobs], repeated=repeated)
                return
            self._ledger.write("not acknowledged", ids=[f"{job.queue}/{job.id}" for job in jobs])
            threading.Event().wait(_PAUSE_AFTER_FAILURE)


def main(url: str, folder: str, name: str, rate: str) -> None:
    """Produce until TERM."""
    office = Office(Producer(backend_from_url(url)), Ledger(Path(folder), name), name, float(rate))
    signal.signal(signal.SIGTERM, lambda *_: office.stopping.set())
    office.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
