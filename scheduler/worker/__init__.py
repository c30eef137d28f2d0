"""The worker: leases jobs in batches, runs them in a bounded thread pool, records their outcomes."""

from scheduler.worker.context import JobContext, current_job
from scheduler.worker.lifecycle import Health, Report
from scheduler.worker.worker import Worker

__all__ = ["Health", "JobContext", "Report", "Worker", "current_job"]
