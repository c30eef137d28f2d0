"""Start of `scheduler worker`: one worker in this process, or a supervisor of several processes."""

from __future__ import annotations

import logging

from scheduler.cli import logs, signals
from scheduler.cli.options import WorkerOptions
from scheduler.cli.process import WorkerProcess
from scheduler.cli.protocol import Exit, Exiting, SupervisorLink
from scheduler.cli.supervisor import Supervisor
from scheduler.errors import ConfigError
from scheduler.logs import printable

_log = logging.getLogger(__name__)


def launch(options: WorkerOptions) -> int:
    """Run a worker or a supervisor with *options*. Return the exit status. A `ConfigError` is logged in one line."""
    link = SupervisorLink.take()
    if link is not None:
        options = link.setup.options  # not those of its environment, such as SCHEDULER_WORKER_PROCESSES=4
    logs.configure(options.log_format, options.log_level)
    try:
        if link is None:
            options.check()
            if options.supervised:
                return Supervisor(options).run()
        signals.install_early(options.log_format)
        return WorkerProcess(options, link).run()
    except ConfigError as error:
        if link is not None:
            link.send(Exiting(status=Exit.USAGE))
        _log.error("%s", printable(str(error)))
        return Exit.USAGE
