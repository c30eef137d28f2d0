"""Jobs in Redis or Valkey: the production hot path."""

from scheduler_backends.redis.backend import RedisBackend
from scheduler_backends.redis.config import RedisConfig

__all__ = ["RedisBackend", "RedisConfig"]
