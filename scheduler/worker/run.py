"""What the rooms of one run of a worker share."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.backend import Backend
from scheduler.config import WorkerConfig
from scheduler.logs import GuardedLogger
from scheduler.metrics import Metrics
from scheduler.worker.doorbell import Doorbell
from scheduler.worker.outage import Outage


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run, from run() to its report. doorbell: the pump's. outage: how the calls of all its threads are going."""

    backend: Backend
    config: WorkerConfig
    doorbell: Doorbell
    outage: Outage
    metrics: Metrics
    logger: GuardedLogger
