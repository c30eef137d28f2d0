"""`manage.py run_worker`: runs the shop's jobs until TERM or Ctrl-C."""

from __future__ import annotations

import signal
from types import FrameType

from django.core.management.base import BaseCommand

from shop.jobs import new_worker


class Command(BaseCommand):
    """Run the worker in this process."""

    help = "Run the shop's jobs until TERM or Ctrl-C."

    def handle(self, *args: object, **options: object) -> None:  # noqa: ARG002 - Django's signature
        """Block until a stop is requested."""
        worker = new_worker()

        def stop(_number: int, _frame: FrameType | None) -> None:
            worker.request_stop()  # safe in a signal handler: it does not wait

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)
        report = worker.run()
        self.stdout.write(f"Stopped: {report.settled} outcomes, {report.released} given back")
