"""The jobs of a run: what they do, how often they may fail, and what must become of them."""

from __future__ import annotations

import random
from dataclasses import dataclass

from scheduler.jobs import NewJob, Priority
from scheduler.producer import Producer

QUEUES = ("first", "second")
PATIENT = 100  # retries: no number of crashes in one run uses them up
LEASE = 2.0  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """share: of all jobs. timeout: seconds. doomed: it must end in dead, all others in succeeded."""

    name: str
    share: int
    max_retries: int = PATIENT
    timeout: float = 20.0
    doomed: bool = False


KINDS = (
    Kind(name="quick", share=60),
    Kind(name="slow", share=12),  # a fraction of a second
    Kind(name="long", share=2),  # longer than a lease
    Kind(name="flaky", share=12),  # fails at first
    Kind(name="snoozing", share=5),  # asks for a moment, once
    Kind(name="late", share=3, timeout=0.5),  # does not heed its timeout at first
    Kind(name="doomed", share=4, max_retries=2, doomed=True),  # always fails
)


def draw_job(producer: Producer, chance: random.Random) -> NewJob:
    """A job of a random kind, queue and priority; a third of them is due a moment later."""
    (kind,) = chance.choices(KINDS, [kind.share for kind in KINDS])
    return producer.new_job(
        kind.name,
        {"kind": kind.name},
        queue=chance.choice(QUEUES),
        delay=chance.uniform(0.0, 3.0) if chance.random() < 1 / 3 else None,
        priority=chance.choice(list(Priority)),
        max_retries=kind.max_retries,
        timeout=kind.timeout,
    )
