"""Leases, their outcomes, and the results of batched calls."""

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
    The right to run a job until `expires_at` (by the store's clock). The token proves it.

    All jobs of one lease call share a token. Leases are equal if queue, job id and token are, even if the job has
    changed.
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
    """A lease whose job has succeeded. result: the encoded return value (None = none), stored only under retention."""

    lease: Lease
    result: bytes | None = None

    def __post_init__(self) -> None:
        if self.result is not None:
            object.__setattr__(self, "result", check_bytes("result", self.result))


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A lease whose attempt has failed, or whose job is put back."""

    lease: Lease
    delay: float = 0.0
    """Seconds until the next attempt; `bury` ignores it."""

    error: ErrorDetail | None = None
    """None = no error is recorded."""

    counted: bool = True
    """False = the attempt is given back."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "delay", check_number("delay", self.delay, at_most=MAX_DELAY))
        if self.error is not None and type(self.error) is not ErrorDetail:
            raise ConfigError("error", f"must be an ErrorDetail, not {type(self.error).__name__}")
        if type(self.counted) is not bool:
            raise ConfigError("counted", f"must be True or False, not {type(self.counted).__name__}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueued:
    """The result for one job. is_new: stored by this call or an earlier one with the same `NewJob`."""

    job: Job
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """moved: how many jobs became ready. next_due: seconds until the next one is due; 0 = now, None = none waits."""

    moved: int
    next_due: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """refused: leases that are not held any more."""

    refused: Sequence[Lease] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """How many expired leases became ready or dead. next_expiry: seconds until the next one expires; None = none."""

    ready: int
    dead: int
    next_expiry: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveAnswer:
    """The result for one id. moved: by this call. state: the job's state now; None = there is no such job."""

    id: str
    moved: bool
    state: JobState | None
