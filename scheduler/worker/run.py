"""What the rooms of one run of a worker share."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.backend import Backend
from scheduler.config import WorkerConfig
from scheduler.logs import GuardedLogger
from scheduler.metrics import Metrics
from scheduler.worker.outage import Outage
from scheduler.worker.wake_event import WakeEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run, from run() to its report. wake_event: the pump's. outage: how the calls of all its threads are going."""

    backend: Backend
    config: WorkerConfig
    wake_event: WakeEvent
    outage: Outage
    metrics: Metrics
    logger: GuardedLogger
