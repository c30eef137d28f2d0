"""What a worker's process says of itself, every second: to its supervisor, and by an HTTP port."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field

from scheduler.worker import Health


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """
    One process, or several added up.

    live: its threads run. ready: it would take jobs and its store answers. counts: those of `CountingMetrics`.
    """

    live: bool
    ready: bool
    held: int = 0
    stuck: int = 0
    outage: float = 0.0
    counts: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, health: Health, counts: Mapping[str, int]) -> Status:
        """The status of a process whose worker is in *health*."""
        # A worker with all slots busy is ready: it works. One whose every thread is stuck is not.
        ready = health.running and not health.stopping and health.outage == 0.0 and (health.leasing or health.held > 0)
        return cls(
            live=health.running,
            ready=ready,
            held=health.held,
            stuck=health.stuck,
            outage=round(health.outage, 3),
            counts=dict(counts),
        )

    @classmethod
    def together(cls, statuses: Iterable[Status], expected: int) -> Status:
        """Several processes as one: ready when all that are expected are."""
        known = list(statuses)
        counts: Counter[str] = Counter()
        for status in known:
            counts.update(status.counts)
        return cls(
            live=True,
            ready=sum(status.ready for status in known) >= expected,
            held=sum(status.held for status in known),
            stuck=sum(status.stuck for status in known),
            outage=max((status.outage for status in known), default=0.0),
            counts=dict(counts),
        )

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self))

    def metrics_text(self) -> str:
        """The status in Prometheus' text format."""
        lines = [
            f"scheduler_worker_{name} {value:g}"
            for name, value in (
                ("ready", int(self.ready)),
                ("held_jobs", self.held),
                ("stuck_threads", self.stuck),
                ("outage_seconds", self.outage),
            )
        ]
        lines += [
            f'scheduler_worker_events_total{{event="{name}"}} {count}' for name, count in sorted(self.counts.items())
        ]
        return "\n".join(lines) + "\n"
