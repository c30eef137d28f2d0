"""The command line: `python -m tests.chaos --backend redis --minutes 10 --seed 7`."""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # children and this process call the room `chaos` alike

from chaos import memory, show
from chaos.arena import arena_for


def main() -> int:
    """Run, and answer the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--backend", default="memory", help="memory, sqlite, redis, postgres, or a URL")
    parser.add_argument("--minutes", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    options = parser.parse_args()
    if options.backend.partition(":")[0] == "memory":
        return int(memory.run(options.minutes, options.seed) > 0)
    with arena_for(options.backend, options.seed) as arena:
        return int(show.run(arena, options.minutes, options.seed) > 0)


if __name__ == "__main__":
    sys.exit(main())
