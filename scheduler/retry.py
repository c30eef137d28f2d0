"""When a failed job is tried again."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Final, Literal, Protocol

from scheduler.errors import ConfigError
from scheduler.limits import MAX_COUNT, Refusal, check_count, check_name, check_number

Curve = Literal["exponential", "polynomial"]
SHORTEST_DELAY: Final = 0.001  # seconds: a delay is always positive
LONGEST_DELAY: Final = 366 * 86_400.0  # seconds


class Delays(Protocol):
    """Anything that says how long to wait after a failed attempt; `RetryPolicy` is the one that can be stored."""

    def delay(self, attempt: int) -> float:
        """Seconds to wait after the failed *attempt*, which counts from 1."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """
    Delays between attempts, as plain data that a job can carry through any store.

    exponential: ``initial * factor ** (n - 1)`` seconds after attempt n; polynomial: ``n ** factor + initial``.
    Jitter of ± that share is added, then `cap` applies. `max_retries` None leaves that number to the producer.
    Raises `ConfigError` for anything that could give a delay that is not finite and positive.
    """

    curve: Curve = "exponential"
    initial: float = 1.0
    factor: float = 2.0
    cap: float = 60.0
    jitter: float = 0.1
    max_retries: int | None = None

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
        """24 retries after n⁴ + 15 seconds, ±10 %: about three weeks in all, as Sidekiq and its kin do."""
        return cls(curve="polynomial", initial=15.0, factor=4.0, cap=7 * 86_400.0, max_retries=24)

    @classmethod
    def fixed(cls, delay: float, *, max_retries: int | None = None) -> RetryPolicy:
        """Always *delay* seconds, without jitter."""
        return cls(initial=delay, factor=1.0, cap=delay, jitter=0.0, max_retries=max_retries)

    def delay(self, attempt: int) -> float:
        """Seconds to wait after the failed *attempt* (from 1): finite, positive, at most `cap`."""
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
        """A dictionary that JSON can carry; `from_data` reads it back."""
        return asdict(self)

    @classmethod
    def from_data(cls, data: Mapping[str, object]) -> RetryPolicy:
        """The policy that `to_data` wrote. Unknown keys, of a later version, are ignored."""
        known = {field.name for field in fields(cls)}
        return cls(**{key: value for key, value in data.items() if key in known})  # type: ignore[arg-type]  # checked


def check_policy(policy: object, error: Refusal) -> RetryPolicy:
    """*policy*, which jobs are to carry: a `RetryPolicy` itself, with values that its constructor lets pass."""
    if type(policy) is not RetryPolicy:  # a subclass would come back from a store as a RetryPolicy, or not at all
        raise error(
            "retry_policy",
            f"must be a plain RetryPolicy, not {type(policy).__name__}: a job carries its data alone; give any other "
            "object with delay() to the handler or to WorkerConfig",
        )
    try:
        policy.__post_init__()
    except (ConfigError, AttributeError) as failure:  # set past the checks, or not at all
        raise error("retry_policy", f"is not as RetryPolicy() makes it: {failure}") from None
    return policy


def sane_delay(delays: Delays, attempt: int, fallback: RetryPolicy) -> float:
    """
    The delay that *delays* asks for, or *fallback*'s where its code raises or answers nonsense.

    A faulty policy of a user must never lose a job, so nothing escapes from here.
    """
    try:
        seconds = float(delays.delay(attempt))
    except BaseException:  # noqa: BLE001 - SystemExit from a policy must not cost the job or the thread either
        return fallback.delay(attempt)
    if not math.isfinite(seconds) or seconds < 0.0:
        return fallback.delay(attempt)
    return min(max(seconds, SHORTEST_DELAY), LONGEST_DELAY)
