"""Jobs in an SQLite file: durable, shared by the processes of one machine, and nothing to install."""

from scheduler_backends.sqlite.backend import SqliteBackend

__all__ = ["SqliteBackend"]
