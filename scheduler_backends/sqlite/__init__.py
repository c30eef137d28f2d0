"""SQLite store: durable jobs in a file that the processes of one machine share. Nothing to install."""

from scheduler_backends.sqlite.backend import SqliteBackend

__all__ = ["SqliteBackend"]
