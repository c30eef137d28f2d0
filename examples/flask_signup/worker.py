"""The worker: `scheduler worker worker:worker`."""

from __future__ import annotations

import os
from email.message import EmailMessage
from pathlib import Path
from typing import cast

from jobs import WELCOME_MAIL, backend

from scheduler import Job, JobContext, Worker, WorkerConfig

OUTBOX = Path(os.environ.get("SIGNUP_OUTBOX", "outbox"))

worker = Worker(backend, WorkerConfig(concurrency=4))


@worker.handler(WELCOME_MAIL)
def send_welcome_mail(job: Job, ctx: JobContext) -> None:
    """Write the mail. A second run of the same job overwrites the file, so it does no harm."""
    mail = EmailMessage()
    mail["To"] = cast("dict[str, str]", ctx.data)["to"]
    mail["Subject"] = "Welcome"
    mail["Message-ID"] = f"<{job.id}@signup.example>"
    mail.set_content("It is good to have you here.")
    OUTBOX.mkdir(exist_ok=True)
    unfinished = OUTBOX / f".{job.id}"
    unfinished.write_bytes(bytes(mail))
    unfinished.rename(OUTBOX / f"{job.id}.eml")  # atomic, even if this process is killed
