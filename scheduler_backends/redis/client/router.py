"""Sending commands to the node that serves them, all of a call in one round trip a node, and never twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple, Protocol

from scheduler_backends.redis.client.node import Connection, Node, Word


class Command(NamedTuple):
    """A command and the hash tag or key that decides which node serves it."""

    key: bytes
    words: tuple[Word, ...]


class Router(Protocol):
    """
    Sends each command to the node that serves its key. Callable from any thread.

    Connects when first used, and again after a fork.
    """

    in_order: ClassVar[bool]
    """Whether the commands of one `run` are carried out in their order: on one server, and not on several."""

    def run(self, commands: Sequence[Command]) -> list[object]:
        """
        The answers, in order; an exception stands where a command failed or its answer was lost.

        Nothing is sent again that may have had an effect.
        """
        ...

    def subscriber(self) -> Connection:
        """A connection of its own to some node, connected, speaking RESP2 (where messages are plain answers)."""
        ...

    def close(self) -> None:
        """Close every connection."""
        ...


class OneNode:
    """A router with one server for all keys: standalone, or the present master behind Sentinel."""

    in_order: ClassVar[bool] = True

    def __init__(self, make: Callable[[], Connection], make_subscriber: Callable[[], Connection]) -> None:
        self._node = Node(make)
        self._make_subscriber = make_subscriber

    def run(self, commands: Sequence[Command]) -> list[object]:
        """As `Router.run`."""
        return self._node.run([command.words for command in commands])

    def subscriber(self) -> Connection:
        """As `Router.subscriber`."""
        connection = self._make_subscriber()
        try:
            connection.connect()
        except BaseException:  # as in nodes.py: the driver closes after its own errors only
            connection.disconnect()
            raise
        return connection

    def close(self) -> None:
        """As `Router.close`."""
        self._node.close()
