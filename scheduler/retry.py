"""Retry policies: how long a failed job waits before its next attempt."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Final, Literal, Protocol, runtime_checkable

from scheduler.errors import ConfigError
from scheduler.limits import MAX_COUNT, Refusal, check_count, check_kind, check_name, check_number

__all__ = ["RetryPolicy"]

Curve = Literal["exponential", "polynomial"]
SHORTEST_DELAY: Final = 0.001  # seconds: a delay is always positive
LONGEST_DELAY: Final = 366 * 86_400.0  # seconds


@runtime_checkable
class Delays(Protocol):
    """Anything with a `delay` method. Only a `RetryPolicy` can be stored with a job."""

    def delay(self, attempt: int) -> float:
        """Return the seconds to wait after the failed *attempt*, which counts from 1."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """
    Delays between attempts, as plain data that any store can keep with a job.

    Raises `ConfigError` for values that could give a delay that is not finite and positive.
    """

    curve: Curve = "exponential"
    """"exponential": ``initial * factor ** (n - 1)`` s after attempt n; "polynomial": ``n ** factor + initial`` s."""

    initial: float = 1.0
    """Seconds: see `curve`."""

    factor: float = 2.0
    """Base of the exponential curve, exponent of the polynomial one."""

    cap: float = 60.0
    """Longest delay in seconds, jitter included."""

    jitter: float = 0.1
    """Random share by which a delay gets shorter or longer: 0.1 = ±10 %."""

    max_retries: int | None = None
    """Retries after the first attempt. None = as the producer says."""

    def __post_init__(self) -> None:
        keep = object.__setattr__
        keep(self, "curve", check_name("curve", self.curve, ConfigError))
        if self.curve not in ("exponential", "polynomial"):
            raise ConfigError("curve", "must be 'exponential' or 'polynomial'")
        # Kept as floats: powers of whole numbers would grow without end instead of overflowing.
        keep(self, "initial", check_number("initial", self.initial, above=0.0, at_most=LONGEST_DELAY))
        keep(self, "factor", check_number("factor", self.factor, at_least=1.0, at_most=100.0))
        keep(self, "cap", check_number("cap", self.cap, at_least=SHORTEST_DELAY, at_most=LONGEST_DELAY))
        keep(self, "jitter", check_number("jitter", self.jitter, at_most=1.0))
        if self.max_retries is not None:
            keep(self, "max_retries", check_count("max_retries", self.max_retries, at_most=MAX_COUNT))

    @classmethod
    def durable(cls) -> RetryPolicy:
        """Return a policy of 24 retries after n⁴ + 15 seconds, ±10 %: about three weeks in all, as in Sidekiq."""
        return cls(curve="polynomial", initial=15.0, factor=4.0, cap=7 * 86_400.0, max_retries=24)

    @classmethod
    def fixed(cls, delay: float, *, max_retries: int | None = None) -> RetryPolicy:
        """Return a policy that always waits *delay* seconds, without jitter."""
        return cls(initial=delay, factor=1.0, cap=delay, jitter=0.0, max_retries=max_retries)

    def delay(self, attempt: int) -> float:
        """Return the seconds to wait after the failed *attempt* (from 1): finite, positive, at most `cap`."""
        number = max(1, attempt)
        try:
            if self.curve == "exponential":
                seconds = self.initial * self.factor ** (number - 1)
            else:
                seconds = number**self.factor + self.initial
        except OverflowError:  # a float power beyond 1.8e308 raises
            seconds = self.cap
        # Cut before the jitter as well: an infinite product times zero would be NaN.
        seconds = min(seconds, self.cap) * random.uniform(1.0 - self.jitter, 1.0 + self.jitter)
        return max(SHORTEST_DELAY, min(seconds, self.cap))

    def to_data(self) -> dict[str, str | float | int | None]:
        """Return a dictionary for JSON; `from_data` reads it back."""
        return asdict(self)

    @classmethod
    def from_data(cls, data: Mapping[str, object]) -> RetryPolicy:
        """Return the policy that `to_data` wrote. Unknown keys, written by a later release, are ignored."""
        known = {field.name for field in fields(cls)}
        return cls(**{key: value for key, value in data.items() if key in known})  # type: ignore[arg-type]  # checked


def check_policy(policy: object, error: Refusal) -> RetryPolicy:
    """Return *policy*, to be stored with jobs: a `RetryPolicy` itself, with values that its constructor accepts."""
    if type(policy) is not RetryPolicy:  # a subclass would come back from a store as a RetryPolicy, or not at all
        raise error(
            "retry_policy",
            f"must be a plain RetryPolicy, not {type(policy).__name__}: only its data is stored with a job; pass any "
            "other object with delay() to the handler or to WorkerConfig",
        )
    try:
        policy.__post_init__()
    except (ConfigError, AttributeError) as failure:  # fields that were set around the checks, or never
        raise error("retry_policy", f"is not as RetryPolicy() makes it: {failure}") from None
    return policy


def check_delays(delays: object) -> None:
    """Raise `ConfigError` for what is no retry policy of a handler or a worker."""
    if not callable(getattr(delays, "delay", None)):
        raise ConfigError("retry_policy", "must have a method delay(attempt) that returns seconds")
    check_kind("retry_policy", delays, Delays)


def sane_delay(delays: Delays, attempt: int, fallback: RetryPolicy) -> float:
    """
    Return the delay of *delays*, or of *fallback* where its code raises or returns no valid delay.

    A faulty policy must never lose a job, so no exception leaves this function.
    """
    try:
        seconds = float(delays.delay(attempt))
    except BaseException:  # noqa: BLE001 - SystemExit from a policy must not cost the job or the thread either
        return fallback.delay(attempt)
    if not math.isfinite(seconds) or seconds < 0.0:
        return fallback.delay(attempt)
    return min(max(seconds, SHORTEST_DELAY), LONGEST_DELAY)
