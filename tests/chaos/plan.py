"""What goes wrong when: drawn from a seed alone, so that a seed replays the schedule of faults."""

from __future__ import annotations

import random
from dataclasses import dataclass

EVERY = 2.5  # seconds between two faults, on average
QUIET_AT_THE_END = 3.0  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """At so many seconds from the start, do `kind` for `seconds` to crew number `target`."""

    at: float
    kind: str
    seconds: float
    target: int

    def __str__(self) -> str:
        return f"{self.at:7.1f} s  {self.kind:<14} {self.seconds:4.1f} s  crew {self.target}"


def draw(seed: int, minutes: float, kinds: tuple[str, ...], crews: int) -> list[Fault]:
    """The faults of one run, in order of time."""
    chance = random.Random(seed)
    end = minutes * 60.0 - QUIET_AT_THE_END
    faults: list[Fault] = []
    at = 2.0
    while at < end:
        # Longer and shorter than a lease, both.
        seconds = round(min(chance.uniform(0.2, 4.5), end - at), 2)
        faults.append(
            Fault(at=round(at, 2), kind=chance.choice(kinds), seconds=seconds, target=chance.randrange(crews))
        )
        at += chance.expovariate(1.0 / EVERY)
    return faults
