"""A master with replicas, watched by Sentinels: all real server processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

from servers import resp
from servers.local import LocalServer
from servers.ports import HOST
from servers.redis_server import RedisCommands, RedisServer

SERVICE = "scheduler"


class Sentinel(RedisCommands, LocalServer):
    """One Sentinel that watches a master."""

    name = "sentinel"

    def __init__(self, program: Path, master: RedisServer, *, quorum: int, down_after: float) -> None:
        super().__init__()
        self._program = program
        self._config_file = self.directory / "sentinel.conf"  # which it rewrites as it learns
        settings = [
            f"bind {HOST}",
            f"port {self.port}",
            f"dir {self.directory}",
            f"sentinel monitor {SERVICE} {HOST} {master.port} {quorum}",
            f"sentinel down-after-milliseconds {SERVICE} {int(down_after * 1000)}",
            f"sentinel failover-timeout {SERVICE} 5000",
        ]
        self._config_file.write_text("\n".join(settings) + "\n")

    @property
    def url(self) -> str:
        """Its own address, not that of the service."""
        return f"redis://{HOST}:{self.port}"

    def _command(self) -> list[str]:
        return [str(self._program), str(self._config_file), "--sentinel"]

    def _answers(self) -> bool:
        try:
            return self.command("PING") == b"PONG"
        except (OSError, resp.CommandError):
            return False


class SentinelGroup:
    """
    One master, replicas, and Sentinels that promote a replica when the master is away for *down_after* seconds.

    servers: the master of the beginning first; `master` is whoever it is now.
    """

    def __init__(self, program: Path, *, replicas: int = 1, sentinels: int = 3, down_after: float = 1.0) -> None:
        first = RedisServer(program)
        follow = {"replicaof": f"{HOST} {first.port}"}
        self.servers = [first, *(RedisServer(program, config=follow) for _ in range(replicas))]
        quorum = sentinels // 2 + 1
        self.sentinels = [Sentinel(program, first, quorum=quorum, down_after=down_after) for _ in range(sentinels)]

    @property
    def url(self) -> str:
        """`redis+sentinel://host:port,host:port/service`."""
        addresses = ",".join(f"{HOST}:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://{addresses}/{SERVICE}"

    @property
    def master(self) -> RedisServer:
        """The master that the first Sentinel running names."""
        sentinel = next(sentinel for sentinel in self.sentinels if sentinel.is_running)
        address = sentinel.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
        assert isinstance(address, list)
        return next(server for server in self.servers if str(server.port).encode() == address[1])

    def start(self) -> None:
        """Start all of them and return when replicas are in step and every Sentinel knows everybody."""
        for server in (*self.servers, *self.sentinels):
            server.start()
        self._wait(self._is_complete, "the Sentinels do not know everybody")

    def wait_for_other_master(self, old: RedisServer, timeout: float = 30.0) -> RedisServer:
        """Return the new master once a Sentinel names it and it agrees."""

        def is_replaced() -> bool:
            master = self.master
            return master is not old and master.is_running and master.info("replication")["role"] == "master"

        self._wait(is_replaced, "no replica was promoted", timeout)
        return self.master

    def fail_over(self) -> RedisServer:
        """Have a replica promoted while the master is well, which becomes its replica, and return the new master."""
        old = self.master

        def is_under_way() -> bool:
            self.sentinels[0].command("SENTINEL", "FAILOVER", SERVICE)  # refused while it has no fresh news of replicas
            return True

        self._wait(is_under_way, "no failover was begun")
        new = self.wait_for_other_master(old)
        old.command("REPLICAOF", HOST, new.port)  # a Sentinel does this too, some ten seconds later
        return new

    def _is_complete(self) -> bool:
        _, *replicas = self.servers
        if any(replica.info("replication")["master_link_status"] != "up" for replica in replicas):
            return False
        for sentinel in self.sentinels:
            answer = sentinel.command("SENTINEL", "MASTER", SERVICE)
            assert isinstance(answer, list)
            known = dict(zip(answer[::2], answer[1::2], strict=True))
            if known[b"num-slaves"] != b"%d" % len(replicas):
                return False
            if known[b"num-other-sentinels"] != b"%d" % (len(self.sentinels) - 1):
                return False
        return True

    @staticmethod
    def _wait(is_done: Callable[[], bool], complaint: str, timeout: float = 30.0) -> None:
        end = time.monotonic() + timeout
        while True:
            with suppress(OSError, resp.CommandError):  # whoever is asked may be the one that is away
                if is_done():
                    return
            if time.monotonic() > end:
                raise TimeoutError(f"{complaint} after {timeout:g} s")
            time.sleep(0.01)

    def close(self) -> None:
        """Kill all of them and delete their data."""
        for server in (*self.sentinels, *self.servers):
            server.close()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
