"""
Write the reports of a night from cron, each as a job with retries. The exit code shows cron whether all succeeded.

Jobs are kept in a file. If a run is interrupted, the next one continues it. A report that was enqueued before is not
enqueued again: its idempotency key is the night and the name of the report.

    python examples/script_nightly.py [--night 2030-01-31] [--backend sqlite:///nightly.db] [--folder reports]
"""

from __future__ import annotations

import argparse
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from scheduler import Job, JobContext, Producer, Worker, WorkerConfig, backend_from_url
from scheduler.states import TERMINAL, JobState

QUEUE = "nightly"
REPORTS = ("sales", "stock", "returns", "visitors")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--night", default=datetime.now(UTC).date().isoformat())
    parser.add_argument("--backend", default="sqlite:///nightly.db?retain_succeeded=604800")
    parser.add_argument("--folder", type=Path, default=Path("reports"))
    options = parser.parse_args()
    options.folder.mkdir(exist_ok=True)

    backend = backend_from_url(options.backend)
    producer = Producer(backend)
    worker = Worker(backend, WorkerConfig(queues=(QUEUE,), concurrency=2))

    @worker.handler("report.write")
    def write_report(job: Job, ctx: JobContext) -> str:
        wanted = cast("dict[str, str]", ctx.data)
        path = options.folder / f"{wanted['night']}-{wanted['name']}.txt"
        path.write_text(f"{wanted['name']} of {wanted['night']}, attempt {job.attempts}\n")
        return str(path)

    ids = [
        producer.enqueue(
            "report.write",
            {"night": options.night, "name": name},
            queue=QUEUE,
            idempotency_key=f"{options.night}/{name}",
        ).job.id
        for name in REPORTS
    ]
    with worker:
        jobs = backend.get(QUEUE, ids)
        pause = threading.Event()
        # A job that retention has deleted has succeeded: by default only dead jobs are kept.
        while any(job.state not in TERMINAL for job in jobs.values()):
            pause.wait(0.1)
            jobs = backend.get(QUEUE, ids)
    backend.close()

    for job in jobs.values():
        print(f"{job.state:<10} {(job.result or b'').decode() or job.last_error}")
    return int(any(job.state is JobState.DEAD for job in jobs.values()))


if __name__ == "__main__":
    sys.exit(main())
