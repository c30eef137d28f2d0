"""The worker, which leases jobs, runs their handlers in a thread pool and records the outcomes."""

from scheduler.worker.context import JobContext, current_job
from scheduler.worker.lifecycle import Health, Report
from scheduler.worker.worker import Worker

__all__ = ["Health", "JobContext", "Report", "Worker", "current_job"]
