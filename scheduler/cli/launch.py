"""Runs what `scheduler worker` was asked for: a worker in this process, or a supervisor of several."""

from __future__ import annotations

import logging

from scheduler.cli import logs, signals
from scheduler.cli.exits import Exit
from scheduler.cli.link import SupervisorLink
from scheduler.cli.options import WorkerOptions
from scheduler.cli.process import run_worker_process
from scheduler.cli.supervisor import Supervisor
from scheduler.errors import ConfigError
from scheduler.logs import printable

_log = logging.getLogger(__name__)


def launch(options: WorkerOptions) -> int:
    """Run to the end and return the exit status. What the user must mend is logged as one line."""
    logs.configure(options.log_format, options.log_level)
    link = SupervisorLink.here()
    try:
        options.check()
        # A child sees the environment that made its supervisor one, such as SCHEDULER_WORKER_PROCESSES=4.
        if link is None and options.supervised:
            return Supervisor(options).run()
        signals.install_early(options.log_format)
        if link is not None:
            link.hear_signals()
        return run_worker_process(options, link)
    except ConfigError as error:
        if link is not None:
            link.say_goodbye(Exit.USAGE)
        _log.error("%s", printable(str(error)))
        return Exit.USAGE
