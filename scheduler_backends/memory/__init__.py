"""The memory backend: jobs in this process, gone with it."""

from scheduler_backends.memory.backend import MemoryBackend

__all__ = ["MemoryBackend"]
