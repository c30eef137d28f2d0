"""The memory backend. Its jobs live in this process and end with it."""

from scheduler_backends.memory.backend import MemoryBackend

__all__ = ["MemoryBackend"]
