"""A server as a test sees it, wherever it runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Server(ABC):
    """One server with an address and data of its own, both kept from start to start until `close`."""

    host: str
    port: int

    @property
    @abstractmethod
    def is_running(self) -> bool:
        """Whether it was started, and neither stopped nor killed since."""

    @property
    @abstractmethod
    def url(self) -> str:
        """Where clients find it, the same for its whole life."""

    @abstractmethod
    def start(self) -> None:
        """Start it, or start it again; returns when it answers. RuntimeError with its last words when it ends."""

    @abstractmethod
    def stop(self) -> None:
        """Shut it down in order. Harmless when it is down."""

    @abstractmethod
    def kill(self) -> None:
        """SIGKILL all its processes at once, as a power cut does; returns when they are gone. Harmless when down."""

    def restart(self) -> None:
        """Stop it if it is up, and start it: same port, same data."""
        self.stop()
        self.start()

    @abstractmethod
    def freeze(self) -> None:
        """Stop its processes where they stand: connections stay open, the kernel takes new ones, nothing answers."""

    @abstractmethod
    def thaw(self) -> None:
        """Let them go on. Harmless when nothing is frozen."""

    @abstractmethod
    def close(self) -> None:
        """Kill it and forget its data: nobody needs either any more. May be called twice."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
