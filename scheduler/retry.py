"""Retry policies: how long a failed job waits before its next attempt."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Final, Literal, Protocol

from scheduler.errors import ConfigError
from scheduler.limits import MAX_COUNT, Refusal, check_count, check_name, check_number

__all__ = ["RetryPolicy"]

Curve = Literal["exponential", "polynomial"]
SHORTEST_DELAY: Final = 0.001  # seconds: a delay is always positive
LONGEST_DELAY: Final = 366 * 86_400.0  # seconds


class Delays(Protocol):
    """Any object with a `delay` method. Only a `RetryPolicy` can be stored with a job."""

    def delay(self, attempt: int) -> float:
        """Return the seconds to wait after failed attempt number *attempt*, counted from 1."""
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
    """Seconds; see `curve`."""

    factor: float = 2.0
    """Base of the exponential curve, exponent of the polynomial one."""

    cap: float = 60.0
    """Longest delay in seconds, jitter included."""

    jitter: float = 0.1
    """Largest random change of a delay, as a share of it: 0.1 = ±10 %."""

    max_retries: int | None = None
    """Retries after the first attempt, for jobs enqueued with this policy. None = the producer's default."""

    def __post_init__(self) -> None:
        keep = object.__setattr__
        keep(self, "curve", check_name("curve", self.curve, ConfigError))
        if self.curve not in ("exponential", "polynomial"):
            raise ConfigError("curve", "must be 'exponential' or 'polynomial'")
        # Kept as floats: a power of whole numbers would grow without limit instead of raising OverflowError.
        keep(self, "initial", check_number("initial", self.initial, above=0.0, at_most=LONGEST_DELAY))
        keep(self, "factor", check_number("factor", self.factor, at_least=1.0, at_most=100.0))
        keep(self, "cap", check_number("cap", self.cap, at_least=SHORTEST_DELAY, at_most=LONGEST_DELAY))
        keep(self, "jitter", check_number("jitter", self.jitter, at_most=1.0))
        if self.max_retries is not None:
            keep(self, "max_retries", check_count("max_retries", self.max_retries, at_most=MAX_COUNT))

    @classmethod
    def durable(cls) -> RetryPolicy:
        """Return a policy like Sidekiq's: 24 retries, after n⁴ + 15 seconds, ±10 %, about three weeks in total."""
        return cls(curve="polynomial", initial=15.0, factor=4.0, cap=7 * 86_400.0, max_retries=24)

    @classmethod
    def fixed(cls, delay: float, *, max_retries: int | None = None) -> RetryPolicy:
        """Return a policy that always waits *delay* seconds, without jitter."""
        return cls(initial=delay, factor=1.0, cap=delay, jitter=0.0, max_retries=max_retries)

    def delay(self, attempt: int) -> float:
        """Return the seconds to wait after failed attempt number *attempt*: finite, positive, at most `cap`."""
        number = max(1, attempt)
        try:
            if self.curve == "exponential":
                seconds = self.initial * self.factor ** (number - 1)
            else:
                seconds = number**self.factor + self.initial
        except OverflowError:  # a float power beyond 1.8e308 raises
            seconds = self.cap
        # Capped before the jitter as well, since an infinite product times zero would be NaN.
        seconds = min(seconds, self.cap) * random.uniform(1.0 - self.jitter, 1.0 + self.jitter)
        return max(SHORTEST_DELAY, min(seconds, self.cap))

    def to_data(self) -> dict[str, str | float | int | None]:
        """Return a dictionary that JSON can encode and `from_data` reads."""
        return asdict(self)

    @classmethod
    def from_data(cls, data: Mapping[str, object]) -> RetryPolicy:
        """Return the policy that `to_data` encoded as *data*. Ignores unknown keys, which a later release may add."""
        known = {field.name for field in fields(cls)}
        return cls(**{key: value for key, value in data.items() if key in known})  # type: ignore[arg-type]  # checked


def check_policy(policy: object, error: Refusal) -> RetryPolicy:
    """Return *policy*, which must be a plain `RetryPolicy` with valid values, since it is stored with jobs."""
    if type(policy) is not RetryPolicy:  # a subclass would come back from a store as a RetryPolicy, or not at all
        raise error(
            "retry_policy",
            f"must be a plain RetryPolicy, not {type(policy).__name__}: only its data is stored with a job; pass any "
            "other object with delay() to the handler or to WorkerConfig",
        )
    try:
        policy.__post_init__()
    except (ConfigError, AttributeError) as failure:  # its fields were set without the checks, or not at all
        raise error("retry_policy", f"has values that RetryPolicy() does not accept: {failure}") from None
    return policy


def check_delays(delays: object) -> None:
    """Raise `ConfigError` unless *delays* can be the retry policy of a handler or worker."""
    if isinstance(delays, type):
        raise ConfigError("retry_policy", f"must be an object with delay(), not the class {delays.__name__} itself")
    # Not by isinstance(): for a protocol, Python 3.12 ignores what __getattr__ returns, as in a mock or a lazy proxy.
    if not callable(getattr(delays, "delay", None)):
        raise ConfigError("retry_policy", "must have a method delay(attempt) that returns seconds")


def sane_delay(delays: Delays, attempt: int, fallback: RetryPolicy) -> float:
    """
    Return the delay of *delays*, or of *fallback* if the code of *delays* raises or returns an invalid delay.

    Never raises, since a faulty policy must not lose a job.
    """
    try:
        seconds = float(delays.delay(attempt))
    except BaseException:  # noqa: BLE001 - even a SystemExit of a policy must not lose the job or end the thread
        return fallback.delay(attempt)
    if not math.isfinite(seconds) or seconds < 0.0:
        return fallback.delay(attempt)
    return min(max(seconds, SHORTEST_DELAY), LONGEST_DELAY)
