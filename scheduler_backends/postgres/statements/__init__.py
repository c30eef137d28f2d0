"""
Text of all statements of the store. Each is a transaction by itself, unless it runs in a caller's transaction.

The texts run directly on the driver's connection, because execution through SQLAlchemy costs 85 to 150 µs more a call.
States and priorities are literals, not parameters: a partial index serves only a predicate that the planner knows.
"""

from __future__ import annotations

from scheduler_backends.postgres.statements.admin import AdminStatements
from scheduler_backends.postgres.statements.enqueue import EnqueueStatements
from scheduler_backends.postgres.statements.lease import LeaseStatements
from scheduler_backends.postgres.statements.maintenance import MaintenanceStatements
from scheduler_backends.postgres.statements.reads import ReadStatements
from scheduler_backends.postgres.statements.settle import SettleStatements


class Statements:
    """Statements for the tables in *schema* whose names begin with *prefix*. Both are checked, *schema* is quoted."""

    def __init__(self, schema: str, prefix: str) -> None:
        job, queue = f"{schema}.{prefix}job", f"{schema}.{prefix}queue"
        self.enqueue = EnqueueStatements(job, queue)
        self.lease = LeaseStatements(job, queue)
        self.settle = SettleStatements(job)
        self.maintenance = MaintenanceStatements(job)
        self.admin = AdminStatements(job, queue)
        self.reads = ReadStatements(job, queue)
