"""The command `scheduler`, which runs workers in production. It needs the extra `cli`."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command."""
    _open_standard_streams()
    try:
        from scheduler.cli.commands import scheduler  # noqa: PLC0415 - click is an extra
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        sys.stderr.write("scheduler: the command line needs: pip install 'reliable-scheduler[cli]'\n")
        sys.exit(2)  # Exit.USAGE, without importing its module
    scheduler(auto_envvar_prefix="SCHEDULER")


def _open_standard_streams() -> None:
    """
    Open standard streams that are closed, as those of a daemon may be, on /dev/null.

    Otherwise a database file could get the descriptor of stderr, and log lines would be written into it.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(descriptor, "w", closefd=False))  # noqa: SIM115 - stays open
