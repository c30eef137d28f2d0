"""Routing in a Redis Cluster: maps slots to nodes, and follows slots that move."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import ClassVar, TypeVar

from redis.crc import key_slot
from redis.exceptions import AskError, ClusterDownError, MovedError, ResponseError, TryAgainError

from scheduler_backends.redis.client.node import Command, Connection, Node, PooledConnection

SLOTS = 16_384
TRIES = 8
FIRST_PAUSE = 0.01  # seconds; doubled each time, so all tries together take about a second

Address = tuple[str, int]
T = TypeVar("T")
slot_of = lru_cache(maxsize=65_536)(key_slot)


class Cluster:
    """
    Router to the nodes of a cluster. Thread-safe.

    The map of slots is read on first use, and again after a node has failed or has replied that a slot has moved. It
    needs no lock, since it is replaced as a whole: two threads may read it at once, and either result is right.
    """

    in_order: ClassVar[bool] = False

    def __init__(self, make: Callable[..., Connection], start: Sequence[Address]) -> None:
        self._make = make  # takes an address, and settings to override
        self._start = tuple(start)
        self._nodes: dict[Address, Node] = {}
        self._slots: list[Address] = []  # empty = unknown or outdated

    def run(self, commands: Sequence[Command]) -> list[object]:
        """Run commands like `Node.run`. Those refused because their slot moves are sent again, to its new node."""
        answers: list[object] = [None] * len(commands)
        left = list(range(len(commands)))
        for attempt in range(TRIES):
            try:
                owners = {number: self._owner(commands[number].key) for number in left}
            except Exception as error:  # noqa: BLE001 - the driver or the system raises any error
                for number in left:
                    answers[number] = error
                return answers
            self._exchange(commands, owners, answers)
            left = [number for number in left if self._is_refused(commands[number], answers, number, owners[number])]
            if not left:
                break
            if attempt:
                time.sleep(FIRST_PAUSE * 2**attempt)  # a slot is moving, and no event reports the end of that
        return answers

    def subscriber(self) -> Connection:
        """Connect to any node: published messages reach all nodes. See `Node.subscriber`."""
        return self._first(lambda address: self._node(address).subscriber())

    def close(self) -> None:
        """Close the connections to all nodes. See `Node.close`."""
        for node in tuple(self._nodes.values()):
            node.close()

    def _exchange(self, commands: Sequence[Command], owners: dict[int, Address], answers: list[object]) -> None:
        by_node: dict[Address, list[int]] = {}
        for number, address in owners.items():
            by_node.setdefault(address, []).append(number)
        under_way: list[tuple[Node, PooledConnection, list[int]]] = []
        for address, numbers in by_node.items():  # everything is written before anything is read
            node = self._node(address)
            try:
                pooled = node.send([commands[number].words for number in numbers])
            except Exception as error:  # noqa: BLE001 - the driver or the system raises any error
                self._slots = []
                for number in numbers:
                    answers[number] = error
            else:
                under_way.append((node, pooled, numbers))
        for node, pooled, numbers in under_way:
            received = node.receive(pooled, len(numbers))
            for number, answer in zip(numbers, received, strict=True):
                answers[number] = answer
                if isinstance(answer, Exception) and not isinstance(answer, ResponseError):
                    self._slots = []  # the node failed: another may take over its slots

    def _is_refused(self, command: Command, answers: list[object], number: int, asked: Address) -> bool:
        """Return whether the command certainly had no effect and must be sent again. Follows ASK redirections."""
        answer = answers[number]
        if isinstance(answer, MovedError):  # first, since it is a subclass of AskError
            self._slots = []
            return True
        if isinstance(answer, AskError):
            there = self._node((answer.host or asked[0], int(answer.port)))
            answers[number] = answer = there.run([Command(b"", (b"ASKING",)), command])[1]
        return isinstance(answer, AskError | TryAgainError | ClusterDownError)

    def _node(self, address: Address) -> Node:
        node = self._nodes.get(address)
        if node is None:
            node = self._nodes.setdefault(address, Node(partial(self._make, address)))
        return node

    def _owner(self, key: bytes) -> Address:
        slots = self._slots
        if not slots:
            slots = self._slots = self._first(self._read_slots)
        owner = slots[slot_of(key)]
        if not owner[0]:
            raise ClusterDownError(f"no node serves slot {slot_of(key)}")
        return owner

    def _read_slots(self, asked: Address) -> list[Address]:
        (answer,) = self._node(asked).run([Command(b"", (b"CLUSTER", b"SLOTS"))])
        if isinstance(answer, Exception):
            raise answer
        if not isinstance(answer, list) or not answer:
            raise ClusterDownError("the cluster has no slots yet")
        slots: list[Address] = [("", 0)] * SLOTS
        for first, last, (host, port, *_), *_ in answer:
            owner = ((host or b"").decode() or asked[0], int(port))
            slots[first : last + 1] = [owner] * (last + 1 - first)
        return slots

    def _first(self, ask: Callable[[Address], T]) -> T:
        """Call *ask* with one node after the other until it succeeds. Return its result or raise the last error."""
        failure: Exception = ClusterDownError("no node of the cluster is known")
        for address in dict.fromkeys((*self._nodes, *self._start)):
            try:
                return ask(address)
            except Exception as error:  # noqa: BLE001 - the driver or the system raises any error
                failure = error
        raise failure


Router = Node | Cluster
"""Sends each command to the node that serves its key. Thread-safe. Connects on first use, and again after a fork."""
