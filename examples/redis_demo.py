"""
Run a worker and some delayed mails on Redis or Valkey, and show the queue version and partition of each job.

    python examples/redis_demo.py [--url redis://127.0.0.1:6379] [--queue demo] [--mails 8]

Needs `pip install 'reliable-scheduler[hiredis]'` and a server. It uses its own key prefix, and leaves no job behind.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import cast

from scheduler import BackendError, ConfigError, Job, JobContext, NewJob, Producer, Worker, WorkerConfig
from scheduler_backends.redis import RedisBackend, RedisConfig


def main() -> int:
    """Enqueue jobs, run them, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="redis://127.0.0.1:6379")
    parser.add_argument("--queue", default="demo")
    parser.add_argument("--mails", type=int, default=8)
    options = parser.parse_args()
    try:
        backend = RedisBackend(options.url, RedisConfig(prefix="scheduler-demo"))
        backend.ping()
    except ConfigError as error:
        parser.error(str(error))
    except BackendError as error:
        print(f"{error}\nIs a Redis or Valkey running there? For another one: --url redis://HOST:PORT", file=sys.stderr)
        return 1
    print(f"using {backend!r}")
    try:
        return demo(backend, options.queue, options.mails)
    finally:
        backend.close()


def demo(backend: RedisBackend, queue: str, mails: int) -> int:
    """Enqueue *mails* jobs, a quarter of a second apart, and run them all."""
    producer = Producer(backend)
    worker = Worker(backend, WorkerConfig(queues=(queue,), concurrency=4))
    left = {f"mail-{number}" for number in range(1, mails + 1)}

    @worker.handler("email.send")
    def send_email(job: Job, ctx: JobContext) -> None:
        mail = cast("Mapping[str, str]", ctx.data)
        late = (datetime.now(UTC) - job.run_at).total_seconds() * 1000
        place = f"version {job.queue_version}, partition {job.partition}"
        print(f"  {job.id:8} to {mail['to']:18} {place}, {late:5.1f} ms late")
        left.discard(job.id)
        if not left:
            worker.request_stop()

    now = datetime.now(UTC)
    jobs = [
        NewJob(
            type="email.send",
            payload=b'{"to": "user%d@example.org"}' % number,
            queue=queue,
            id=f"mail-{number}",
            run_at=now + timedelta(seconds=number * 0.25),
        )
        for number in range(1, mails + 1)
    ]
    for result in producer.enqueue_many(jobs):
        job = result.job
        note = "" if result.is_new else " (already stored)"
        place = f"version {job.queue_version}, partition {job.partition}"
        print(f"enqueued {job.id:8} for {job.run_at:%H:%M:%S.%f}: {place}{note}")
    if jobs:
        print("running:")
        worker.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
