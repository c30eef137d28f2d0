"""A Redis or Valkey Cluster of real server processes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from servers import resp
from servers.ports import HOST, Port
from servers.redis_server import Persistence, RedisServer

_SLOTS = 16_384


class ClusterNode(RedisServer):
    """One node; its bus has a port of its own, since the usual one, 10,000 higher, may not exist."""

    def __init__(self, program: Path, *, persistence: Persistence, config: Mapping[str, str]) -> None:
        self._bus_port = Port()
        self.bus_port = self._bus_port.number
        cluster = {
            "cluster-enabled": "yes",
            "cluster-port": str(self.bus_port),
            "cluster-node-timeout": "2000",  # milliseconds
        }
        super().__init__(program, persistence=persistence, config={**cluster, **config})

    @property
    def id(self) -> str:
        """Its name within the cluster."""
        return resp.text(self.command("CLUSTER", "MYID"))

    def close(self) -> None:
        """Kill it and delete its data."""
        super().close()
        self._bus_port.release()


class RedisCluster:
    """
    Masters without replicas that share the slots evenly. Each node of `nodes` may be killed, frozen and restarted.

    config: further settings of every node.
    """

    def __init__(
        self,
        program: Path,
        *,
        size: int = 3,
        persistence: Persistence = "everysec",
        config: Mapping[str, str] | None = None,
    ) -> None:
        self.nodes = [ClusterNode(program, persistence=persistence, config=config or {}) for _ in range(size)]
        self._is_formed = False

    @property
    def url(self) -> str:
        """`redis+cluster://…` with the address of the first node."""
        return f"redis+cluster://{HOST}:{self.nodes[0].port}"

    def start(self) -> None:
        """Start the nodes that are down and return when every node finds the cluster complete."""
        for node in self.nodes:
            if not node.is_running:
                node.start()
        if not self._is_formed:
            self._form()
            self._is_formed = True
        self.wait_until_complete()

    def _form(self) -> None:
        bounds = [_SLOTS * number // len(self.nodes) for number in range(len(self.nodes) + 1)]
        for epoch, (node, first, end) in enumerate(zip(self.nodes, bounds, bounds[1:], strict=False), start=1):
            node.command("CLUSTER", "ADDSLOTSRANGE", first, end - 1)
            node.command("CLUSTER", "SET-CONFIG-EPOCH", epoch)  # else the nodes have to agree on that first
        first_node, *others = self.nodes
        for node in others:
            first_node.command("CLUSTER", "MEET", HOST, node.port, node.bus_port)

    def wait_until_complete(self, timeout: float = 30.0) -> None:
        """Return when every node knows all others and says that all slots are served."""
        end = time.monotonic() + timeout
        while not all(self._is_complete(node) for node in self.nodes):
            if time.monotonic() > end:
                states = [resp.text(node.command("CLUSTER", "INFO")) for node in self.nodes]
                raise TimeoutError(f"the cluster is not complete after {timeout:g} s:\n" + "\n".join(states))
            time.sleep(0.01)

    def _is_complete(self, node: ClusterNode) -> bool:
        info = resp.fields(node.command("CLUSTER", "INFO"))
        return info["cluster_state"] == "ok" and info["cluster_known_nodes"] == str(len(self.nodes))

    def node_of_slot(self, slot: int) -> ClusterNode:
        """The node that serves *slot*, as the first node sees it."""
        ranges = self.nodes[0].command("CLUSTER", "SLOTS")
        assert isinstance(ranges, list)
        for entry in ranges:
            assert isinstance(entry, list)
            first, last, master = entry[:3]
            if isinstance(first, int) and isinstance(last, int) and first <= slot <= last:
                assert isinstance(master, list)
                return next(node for node in self.nodes if node.port == master[1])
        raise LookupError(f"nobody serves slot {slot}")

    def begin_migration(self, slot: int, target: ClusterNode) -> None:
        """Leave *slot* half-migrated: its present node answers ASK for keys that it does not hold."""
        source = self.node_of_slot(slot)
        target.command("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        source.command("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)

    def finish_migration(self, slot: int, target: ClusterNode) -> None:
        """Move the keys of *slot* and make *target* its node, on every node."""
        source = self.node_of_slot(slot)
        while keys := source.command("CLUSTER", "GETKEYSINSLOT", slot, 100):
            assert isinstance(keys, list)
            for key in keys:
                assert isinstance(key, bytes)
                source.command("MIGRATE", HOST, target.port, key, 0, 5_000)
        target_id = target.id
        for node in (target, source, *self.nodes):  # the new owner first, as the manual says
            node.command("CLUSTER", "SETSLOT", slot, "NODE", target_id)

    def close(self) -> None:
        """Kill every node and delete its data."""
        for node in self.nodes:
            node.close()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
