"""Command line of the benchmarks."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence

from benchmarks.benchmark_store import BenchmarkStore
from benchmarks.measure import Measure, measured
from benchmarks.report import FORMATS
from scheduler.errors import SchedulerError

Plan = Callable[[BenchmarkStore], Iterable[Measure]]


def main(description: str | None, plan: Plan, *, size: int, arguments: Sequence[str] | None = None) -> int:
    """
    Run the measures of *plan* with the options of the command line, and print each result.

    Args:
        description: Text for --help.
        plan: Yields the measures for a store.
        size: Default of --size, in jobs unless *description* defines it otherwise.
        arguments: Command line. None means that of the process.

    Returns:
        The exit code.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="memory://", metavar="URL", help="the store (default: memory://)")
    parser.add_argument(
        "--repeat", type=_count, default=5, metavar="N", help="repeats to take the medians of (default: 5)"
    )
    parser.add_argument("--size", type=_count, default=size, metavar="N", help=f"size of a repeat (default: {size:,})")
    parser.add_argument("--batch", type=_count, default=64, metavar="N", help="jobs per call of a worker (default: 64)")
    parser.add_argument("--json", action="store_true", help="print one object per line")
    chosen = parser.parse_args(arguments)
    try:
        with BenchmarkStore(chosen.backend, size=chosen.size, batch=chosen.batch) as bench:
            for result in measured(plan(bench), chosen.repeat):
                print(FORMATS[chosen.json](result), flush=True)
    except SchedulerError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
    return 0


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number
