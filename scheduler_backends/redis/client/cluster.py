"""Routing in a Redis Cluster: which node has which slot, and what to do while slots move."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import ClassVar, TypeVar

from redis.crc import key_slot
from redis.exceptions import AskError, ClusterDownError, MovedError, ResponseError, TryAgainError

from scheduler_backends.redis.client.node import Command, Connection, Line, Node

SLOTS = 16_384
TRIES = 8
FIRST_PAUSE = 0.01  # seconds; doubled at each try, so that all tries together take about a second

Address = tuple[str, int]
T = TypeVar("T")
slot_of = lru_cache(maxsize=65_536)(key_slot)


class Cluster:
    """
    A router over the nodes of a cluster. Callable from any thread.

    The map of slots is read when first needed, when a node fails, and when a node replies that a slot has moved. It is
    replaced as a whole, so it needs no lock: two threads may read it at once, and either result is right.
    """

    in_order: ClassVar[bool] = False

    def __init__(self, make: Callable[..., Connection], start: Sequence[Address]) -> None:
        self._make = make  # takes an address, and settings that differ
        self._start = tuple(start)
        self._nodes: dict[Address, Node] = {}
        self._slots: list[Address] = []  # empty = not known, or not to be trusted any more

    def run(self, commands: Sequence[Command]) -> list[object]:
        """As `Node.run`; commands that a node refused because their slot moves are sent to where it is."""
        answers: list[object] = [None] * len(commands)
        left = list(range(len(commands)))
        for attempt in range(TRIES):
            try:
                owners = {number: self._owner(commands[number].key) for number in left}
            except Exception as error:  # noqa: BLE001 - whatever the driver or the system raises
                for number in left:
                    answers[number] = error
                return answers
            self._exchange(commands, owners, answers)
            left = [number for number in left if self._is_refused(commands[number], answers, number, owners[number])]
            if not left:
                break
            if attempt:
                time.sleep(FIRST_PAUSE * 2**attempt)  # a slot is being moved, and there is no event at its end
        return answers

    def subscriber(self) -> Connection:
        """As `Node.subscriber`. Published messages reach every node of a cluster."""
        return self._first(lambda address: self._node(address).subscriber())

    def close(self) -> None:
        """As `Node.close`."""
        for node in tuple(self._nodes.values()):
            node.close()

    def _exchange(self, commands: Sequence[Command], owners: dict[int, Address], answers: list[object]) -> None:
        by_node: dict[Address, list[int]] = {}
        for number, address in owners.items():
            by_node.setdefault(address, []).append(number)
        under_way: list[tuple[Node, Line, list[int]]] = []
        for address, numbers in by_node.items():  # all is written before anything is read
            node = self._node(address)
            try:
                line = node.send([commands[number].words for number in numbers])
            except Exception as error:  # noqa: BLE001 - whatever the driver or the system raises
                self._slots = []
                for number in numbers:
                    answers[number] = error
            else:
                under_way.append((node, line, numbers))
        for node, line, numbers in under_way:
            received = node.receive(line, len(numbers))
            for number, answer in zip(numbers, received, strict=True):
                answers[number] = answer
                if isinstance(answer, Exception) and not isinstance(answer, ResponseError):
                    self._slots = []  # the node is gone: another may have its slots soon

    def _is_refused(self, command: Command, answers: list[object], number: int, asked: Address) -> bool:
        """Whether the command surely had no effect and is to be sent again; an ASK is followed here."""
        answer = answers[number]
        if isinstance(answer, MovedError):  # before AskError, of which it is a kind
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
        """Return what the first node has answered that could, or raise the last error."""
        failure: Exception = ClusterDownError("no node of the cluster is known")
        for address in dict.fromkeys((*self._nodes, *self._start)):
            try:
                return ask(address)
            except Exception as error:  # noqa: BLE001 - whatever the driver or the system raises
                failure = error
        raise failure


Router = Node | Cluster
"""Sends each command to the node that serves its key. Any thread. Connects when first used, and again after a fork."""
