"""What passes between a worker and a store: leases, what became of them, and the answers to batched calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from scheduler.errors import ConfigError
from scheduler.jobs import ErrorDetail, Job
from scheduler.limits import MAX_DELAY, check_bytes, check_number
from scheduler.states import JobState


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lease:
    """
    The right to run a job until `expires_at` (by the store's clock), proved by `token`.

    All jobs of one lease call share its token. Two leases are equal when they are the same right: same queue, job id
    and token, whatever else has changed meanwhile.
    """

    job: Job
    token: str
    expires_at: datetime

    @property
    def key(self) -> tuple[str, str, str]:
        """Queue, job id and token."""
        return self.job.queue, self.job.id, self.token

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, Lease) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """A lease whose job has succeeded. result: encoded return value, kept only under retention; None = none."""

    lease: Lease
    result: bytes | None = None

    def __post_init__(self) -> None:
        if self.result is not None:
            object.__setattr__(self, "result", check_bytes("result", self.result))


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """
    A lease whose attempt has failed, or is put back.

    delay: seconds until the next try; `bury` ignores it. error: None = none is recorded. counted: False gives the
    attempt back.
    """

    lease: Lease
    delay: float = 0.0
    error: ErrorDetail | None = None
    counted: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "delay", check_number("delay", self.delay, at_most=MAX_DELAY))
        if self.error is not None and type(self.error) is not ErrorDetail:
            raise ConfigError("error", f"must be an ErrorDetail, not {type(self.error).__name__}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueued:
    """is_new: stored by this call or by an earlier try of the same `NewJob`; else `job` is the one already there."""

    job: Job
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """moved: how many became ready. next_due: seconds until the next job is due, 0 = now, None = none waits."""

    moved: int
    next_due: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """refused: leases that are not held any more. A value, so that other news for the holder find a place later."""

    refused: Sequence[Lease] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """How many expired leases became ready or dead; next_expiry: seconds until the next one expires, None = none."""

    ready: int
    dead: int
    next_expiry: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveAnswer:
    """What cancel or requeue did with one id. state: the job's state now, None = no such job. moved: by this call."""

    id: str
    moved: bool
    state: JobState | None
