"""The command `scheduler`: workers in production. Needs the extra `cli`."""

from __future__ import annotations

import sys

from scheduler.cli import streams


def main() -> None:
    """The entry point of the command."""
    streams.ensure()
    try:
        from scheduler.cli.commands import scheduler  # noqa: PLC0415 - click is an extra
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        sys.stderr.write("scheduler: the command line needs: pip install 'reliable-scheduler[cli]'\n")
        sys.exit(2)  # as Exit.USAGE, whose module needs not be imported for this
    scheduler(auto_envvar_prefix="SCHEDULER")
