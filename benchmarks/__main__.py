"""
Run all benchmarks, or the named ones, one after the other, each in a new process.

    python -m benchmarks [NAME...] [--backend URL] [--repeat N] [--json]
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# From the shortest run to the longest.
NAMES = (
    "store_lifecycle",
    "worker_throughput",
    "lease_complete",
    "enqueue_single",
    "enqueue_bulk",
    "pickup",
    "lateness",
    "idle",
    "partitions",
    "backlog",
)


def main(arguments: list[str]) -> int:
    """Run the benchmarks named before the first option, by default all. Return the highest exit code."""
    count = next((number for number, word in enumerate(arguments) if word.startswith("-")), len(arguments))
    names, options = arguments[:count] or NAMES, arguments[count:]
    unknown = [name for name in names if not (Path(__file__).parent / f"{name}.py").exists()]
    if unknown:
        print(f"unknown benchmark {', '.join(unknown)}; known: {', '.join(NAMES)}", file=sys.stderr)
        return 2
    commands = ([sys.executable, "-m", f"benchmarks.{name}", *options] for name in names)
    return max(subprocess.run(command, check=False).returncode for command in commands)  # noqa: S603 - our own


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
