"""
Run a command while servers run, whose URLs stand in its arguments as {redis}, {cluster} and {postgres}.

    PYTHONPATH=tests python -m servers python -m benchmarks.store_lifecycle --backend '{postgres}'

They are set up for measuring: Redis without persistence, PostgreSQL with fsync. Without a command they run until
interrupted, and their URLs are printed.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import TypeVar

from servers import flavours
from servers.flavours import Absent, Candidate
from servers.redis_cluster import RedisCluster
from servers.server import Server

S = TypeVar("S", bound=Server)

_NAMES = ("redis", "cluster", "postgres")


def main(command: list[str]) -> int:
    """Start what *command* names (without one: Redis and PostgreSQL), run it, and answer its exit code."""
    wanted = [name for name in _NAMES if any(f"{{{name}}}" in word for word in command)]
    with ExitStack() as stack:
        urls = {name: _url(name, stack) for name in wanted or ("redis", "postgres")}
        if not command:
            for name, url in urls.items():
                sys.stdout.write(f"{name}: {url}\n")
            sys.stdout.flush()
            with suppress(KeyboardInterrupt):
                signal.pause()
            return 0
        for name, url in urls.items():
            command = [word.replace(f"{{{name}}}", url) for word in command]
        return subprocess.run(command, check=False).returncode


def _url(name: str, stack: ExitStack) -> str:
    if name == "postgres":
        return _started(flavours.postgres(), stack, fsync=True)
    if name == "redis":
        return _started(flavours.redis(), stack, persistence="none")
    programs = flavours.program(flavours.redis())
    if isinstance(programs, Absent):
        raise SystemExit(programs.reason)
    return stack.enter_context(RedisCluster(programs, persistence="none")).url


def _started(candidates: Sequence[Candidate[S]], stack: ExitStack, **options: object) -> str:
    found = flavours.first(candidates)
    if isinstance(found, Absent):
        raise SystemExit(found.reason)
    if found.url is not None:
        return found.url
    server = found.build(**options)
    stack.enter_context(server)
    return server.url


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
