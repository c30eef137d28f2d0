"""A server that runs as a process of this machine."""

from __future__ import annotations

import signal
import subprocess
import time
from abc import abstractmethod
from typing import ClassVar

from servers import processes
from servers.ports import HOST, Port
from servers.scratch import Scratch
from servers.server import Server
from servers.users import User


class LocalServer(Server):
    """A `Server` that is a direct child of this process. Used by one thread; started from the main thread."""

    name: ClassVar[str]
    stop_signal: ClassVar = signal.SIGTERM
    death_signal: ClassVar = signal.SIGKILL  # what it gets when this process dies
    start_timeout: ClassVar = 30.0  # seconds

    def __init__(self, user: User | None = None) -> None:
        self._user = user
        self._port = Port()
        self.host = HOST
        self.port = self._port.number  # the same for its whole life
        self._process: subprocess.Popen[bytes] | None = None
        self._frozen: list[int] = []
        self._scratch = Scratch(self.name, user)
        self.directory = self._scratch.path
        self._log = self.directory / "server.log"

    @abstractmethod
    def _command(self) -> list[str]:
        """The program and its arguments."""

    @abstractmethod
    def _answers(self) -> bool:
        """Return True if it responds to a request now. Called every few milliseconds during a start."""

    @property
    def pid(self) -> int:
        """The process's id; RuntimeError while it is down."""
        if self._process is None:
            raise RuntimeError(f"{self.name} is not running")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it was started, and neither stopped nor killed since."""
        return self._process is not None

    @property
    def log(self) -> str:
        """What it has written so far."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def start(self) -> None:
        """Start it, or start it again; returns when it answers. RuntimeError with its last words when it ends."""
        if self._process is not None:
            raise RuntimeError(f"{self.name} is running already")
        self._spawn()
        try:
            self._wait_until_it_answers()
        except BaseException:
            self.kill()
            raise

    def _spawn(self) -> None:
        identity = f"{self._user.uid}:{self._user.gid}" if self._user else "-"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                processes.ending_with_us(self._command(), self.death_signal, identity),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                start_new_session=True,  # a Ctrl-C in the terminal is the tests', not the server's
            )

    def _wait_until_it_answers(self) -> None:
        end = time.monotonic() + self.start_timeout
        while not self._answers():
            if self._process is None or self._process.poll() is not None:
                raise RuntimeError(f"{self.name} ended while starting:\n{self.log[-2000:]}")
            if time.monotonic() > end:
                raise RuntimeError(f"{self.name} did not answer in {self.start_timeout:g} s:\n{self.log[-2000:]}")
            time.sleep(0.005)

    def stop(self, number: signal.Signals | None = None, timeout: float = 30.0) -> None:
        """Send *number*, by default the signal of an orderly end, and wait for it. Harmless when it is down."""
        if self._process is None:
            return
        self.thaw()
        family = processes.descendants(self.pid)
        self._process.send_signal(number or self.stop_signal)
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        processes.wait_gone(family)
        self._process = None

    def kill(self) -> None:
        """SIGKILL it and its children at once, as a power cut does; returns when they are gone. Harmless when down."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGSTOP)  # no new child appears between the look and the kill
        family = processes.descendants(self.pid)
        processes.send([self.pid, *family], signal.SIGKILL)
        self._process.wait()
        processes.wait_gone(family)
        self._process, self._frozen = None, []

    def freeze(self) -> None:
        """SIGSTOP it and its children: connections stay open, new ones are taken by the kernel, nothing answers."""
        processes.send([self.pid], signal.SIGSTOP)
        self._frozen = [self.pid, *processes.descendants(self.pid)]
        processes.send(self._frozen, signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT all that `freeze` stopped. Harmless when nothing is frozen."""
        processes.send(self._frozen, signal.SIGCONT)
        self._frozen = []

    def close(self) -> None:
        """Kill it and delete its data: nobody needs either any more. May be called twice."""
        self.kill()
        self._port.release()
        self._scratch.remove()
