"""
Show the versions of a queue on Redis or Valkey, promote a new one, and remove an old one when it is empty.

    python examples/redis_migration.py topology --queue default
    python examples/redis_migration.py promote  --queue default --version 2 --partitions 16
    python examples/redis_migration.py complete --queue default --version 1 [--finished move] [--timeout 600]

Producers and workers continue in the meantime and need no restart. `complete` shows its progress and waits until the
version is empty. If `rich` is installed, it shows a progress bar. Exit codes: 0 done, 1 refused or timed out, 2 invalid
arguments.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from scheduler import BackendError, BackendUnavailable, ConfigError, TopologyError
from scheduler.states import LIVE
from scheduler.topology import QueueTopology
from scheduler_backends.redis import RedisBackend, RedisConfig

LOOK_EVERY = 0.25  # seconds
Advance = Callable[[int, int], None]  # done, total


def main() -> int:
    """Run the command and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("topology", "promote", "complete"))
    parser.add_argument("--url", default="redis://127.0.0.1:6379")
    parser.add_argument("--prefix", default="scheduler")
    parser.add_argument("--queue", default="default")
    parser.add_argument("--version", type=int, help="promote: the new one; complete: the one to remove")
    parser.add_argument("--partitions", type=int, help="promote: how many the new version has")
    parser.add_argument(
        "--finished",
        choices=("refuse", "purge", "move"),
        default="refuse",
        help="complete: what to do with its kept jobs",
    )
    parser.add_argument("--timeout", type=float, default=3600.0, help="complete: seconds to wait until it has drained")
    options = parser.parse_args()
    needed = {"topology": (), "promote": ("version", "partitions"), "complete": ("version",)}[options.action]
    for name in needed:
        if getattr(options, name) is None:
            parser.error(f"{options.action} needs --{name}")
    # Hide a warning that does not matter here: a queue may have more or fewer partitions than this configuration.
    logging.getLogger("scheduler.redis").setLevel(logging.ERROR)
    try:
        backend = RedisBackend(options.url, RedisConfig(prefix=options.prefix))
    except ConfigError as error:
        parser.error(str(error))
    try:
        if options.action == "topology":
            result = backend.topology(options.queue)
        elif options.action == "promote":
            result = backend.promote_queue_version(options.queue, options.version, options.partitions)
        else:
            result = complete(backend, options)
    except ConfigError as error:
        parser.error(str(error))
    except BackendError as error:
        print(f"refused: {error}", file=sys.stderr)
        return 1
    finally:
        backend.close()
    show(result)
    return 0


def complete(backend: RedisBackend, options: argparse.Namespace) -> QueueTopology:
    """Remove the version when it is empty. Raise the last refusal if that takes too long."""
    deadline = time.monotonic() + options.timeout
    with progress(f"version {options.version} drains") as advance:
        most = 0
        while True:
            try:
                result = backend.complete_draining_version(options.queue, options.version, finished=options.finished)
            except TopologyError as refusal:
                live = sum(count for state, count in refusal.counts.items() if state in LIVE)
                if not live or time.monotonic() > deadline:
                    raise  # the remaining jobs are finished: no worker will remove them
                most = max(most, live)
                advance(most - live, most)
            except BackendUnavailable:  # for example a failover: the version stays until it is removed completely
                if time.monotonic() > deadline:
                    raise
            else:
                if most:
                    advance(most, most)
                return result
            time.sleep(LOOK_EVERY)


def show(topology: QueueTopology) -> None:
    """Print the versions."""
    print(f"queue {topology.queue}, change {topology.epoch}")
    for version in topology.versions:
        print(f"  version {version.version}: {version.partitions} partitions, {version.state}")


@contextmanager
def progress(what: str) -> Iterator[Advance]:
    """Show a progress bar if rich is installed and stderr is a terminal, otherwise a line for each change."""
    try:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415
    except ImportError:
        yield Lines(what)
        return
    if not sys.stderr.isatty():
        yield Lines(what)
        return
    from rich.console import Console  # noqa: PLC0415 - part of the same package

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("jobs"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


class Lines:
    """Plain progress: a line for each change."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._last = ""

    def __call__(self, done: int, total: int) -> None:
        """Print a line if it differs from the last one."""
        line = f"{self._what}: {done} of {total} jobs"
        if line != self._last:
            print(line, file=sys.stderr)
            self._last = line


if __name__ == "__main__":
    sys.exit(main())
