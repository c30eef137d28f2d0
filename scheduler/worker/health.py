"""How a worker is, for probes and dashboards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from scheduler.worker.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """
    How a worker is now. leasing: whether it would take another job. held: jobs it holds, unsent outcomes included.

    stuck: handler threads that do not return. outage: seconds for which the store has not answered, 0.0 = it does.
    """

    running: bool
    stopping: bool
    leasing: bool
    held: int
    stuck: int
    outage: float

    @classmethod
    def of(cls, session: Session | None) -> Self:
        """The health of a worker in this run; None = it does not run."""
        if session is None:
            return cls(running=False, stopping=False, leasing=False, held=0, stuck=0, outage=0.0)
        stopping = session.ending.asked
        return cls(
            running=True,
            stopping=stopping,
            leasing=not stopping and session.inflight.room() > 0,
            held=session.inflight.held,
            stuck=session.inflight.stuck,
            outage=session.outage.seconds,
        )
