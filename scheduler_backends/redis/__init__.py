"""Backend that stores jobs in Redis or Valkey."""

from scheduler_backends.redis.backend import RedisBackend
from scheduler_backends.redis.config import RedisConfig

__all__ = ["RedisBackend", "RedisConfig"]
