"""Options of `scheduler worker`."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.config import WorkerConfig
from scheduler.errors import ConfigError
from scheduler.limits import MAX_NAME

_SUFFIX = 20  # characters for what a supervisor adds to a worker id, such as ":3.17"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """
    Options as on the command line. None means the value in the application's own configuration.

    grace: seconds. max_memory: MiB of resident memory, None = no limit. max_silence: seconds, 0 = no limit.
    health_port: None = no port, 0 = any free port.
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
    health_host: str = "127.0.0.1"
    health_port: int | None = None
    metrics: bool = False

    @property
    def supervised(self) -> bool:
        """Whether a supervisor starts the workers, rather than this process running the only one."""
        return self.processes > 1 or bool(self.watch)

    def check(self) -> None:
        """Raise `ConfigError` if a worker cannot be configured with these values, before any process is started."""
        WorkerConfig(**self.changes())  # type: ignore[arg-type]  # the config checks them
        if self.supervised and self.worker_id is not None and len(self.worker_id) > MAX_NAME - _SUFFIX:
            raise ConfigError("worker_id", f"must have at most {MAX_NAME - _SUFFIX} characters for several processes")

    def changes(self) -> dict[str, object]:
        """Return the changes to the application's own `WorkerConfig`."""
        given = {
            "concurrency": self.threads,
            "queues": self.queues,
            "worker_id": self.worker_id,
            "shutdown_grace": self.grace,
        }
        return {name: value for name, value in given.items() if value is not None}
