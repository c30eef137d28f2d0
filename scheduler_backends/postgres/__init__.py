"""PostgreSQL store, with enqueue inside the caller's own transaction."""

from scheduler_backends.postgres.backend import PostgresBackend

__all__ = ["PostgresBackend"]
