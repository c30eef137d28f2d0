"""What `scheduler worker` was told, and the command line that tells a child the same."""

from __future__ import annotations

import sys
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """
    As on the command line; None = as the application's own worker says.

    grace: seconds. max_memory: MiB of resident memory. max_silence: seconds, 0 = for ever. health_port: None = none is
    opened, 0 = any free one.
    """

    target: str
    processes: int = 1
    threads: int | None = None
    queues: tuple[str, ...] | None = None
    worker_id: str | None = None
    grace: float | None = None
    burst: bool = False
    max_jobs: int | None = None
    max_memory: float | None = None
    max_silence: float = 60.0
    watch: tuple[str, ...] = ()
    log_format: str = "text"
    log_level: str = "INFO"
    health_file: str | None = None
    health_host: str = "127.0.0.1"
    health_port: int | None = None
    metrics: bool = False

    @property
    def supervised(self) -> bool:
        """Whether a supervisor starts the workers, rather than this process being the only one."""
        return self.processes > 1 or bool(self.watch)

    def changes(self) -> dict[str, object]:
        """What differs from the configuration that the application gave its worker."""
        given = {
            "concurrency": self.threads,
            "queues": self.queues,
            "worker_id": self.worker_id,
            "shutdown_grace": self.grace,
        }
        return {name: value for name, value in given.items() if value is not None}

    def child_command(self, worker_id: str) -> list[str]:
        """The command of one supervised child. Health is served by the supervisor, for all of them."""
        command = [sys.executable, "-m", "scheduler.cli", "worker", self.target, "--worker-id", worker_id]
        given = {
            "--threads": self.threads,
            "--queues": ",".join(self.queues) if self.queues else None,
            "--grace": self.grace,
            "--max-jobs": self.max_jobs,
            "--max-memory": self.max_memory,
            "--log-format": self.log_format,
            "--log-level": self.log_level,
        }
        for name, value in given.items():
            if value is not None:
                command += [name, str(value)]
        return [*command, "--burst"] if self.burst else command
