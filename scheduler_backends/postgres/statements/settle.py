"""Statements of complete, retry, bury and release. Each returns the positions of the leases that it accepts."""

from __future__ import annotations

from scheduler_backends.postgres.statements.parts import FREE, IS_HELD, NOW, after, given_back, held, with_error
from scheduler_backends.sql.states import DEAD, RETRY_WAIT, SCHEDULED, SUCCEEDED


class SettleStatements:
    """Statements that end a lease: the job moves to the state that the holder requests."""

    def __init__(self, job: str) -> None:
        # With retention 0, a finished job is deleted at once.
        self.finish = f"{held(job)}\nDELETE FROM {job} AS job USING held WHERE {IS_HELD} RETURNING held.n"

        def update(changes: str, **arrays: str) -> str:
            return f"""
{held(job, **arrays)}
UPDATE {job} AS job SET {changes}, {FREE}
FROM held WHERE {IS_HELD} RETURNING held.n"""

        self.complete = update(f"state = {SUCCEEDED}, finished_at = {NOW}, result = held.results", results="bytea")

        failed = f"attempts = {given_back('held.returned')}, errors = {with_error('held.errors')}"
        passed = {"errors": "text", "delays": "bigint", "returned": "integer"}
        self.retry = update(f"state = {RETRY_WAIT}, due_at = {after('held.delays')}, {failed}", **passed)
        self.bury = update(f"state = {DEAD}, finished_at = {NOW}, {failed}", **passed)

        # due_at does not change, so the job is first in its queue again.
        self.release = update(f"state = {SCHEDULED}, attempts = {given_back('1')}")
