"""The storage contract over Redis or Valkey; each method checks its arguments and hands on to the room that knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Self
from weakref import WeakSet

from scheduler.abilities import Finished, Waiter
from scheduler.backend import Backend
from scheduler.clock import Clock
from scheduler.errors import ConfigError
from scheduler.jobs import Job, NewJob
from scheduler.leases import Completion, Enqueued, Failure, Lease, MoveAnswer, Promotion, Recovery, Renewal
from scheduler.limits import check_duration, check_kind, check_limit, check_name, check_token
from scheduler.queues import Page, QueueStats, Retention
from scheduler.states import JobState
from scheduler.topology import QueueTopology
from scheduler.urls import RETENTION_OPTIONS, Option, Parser, retention_from, split_options, without_password
from scheduler_backends.redis.arguments import is_id, queues_of, state_of, texts
from scheduler_backends.redis.calls import Calls
from scheduler_backends.redis.changes import Changes
from scheduler_backends.redis.clients import router_for_client
from scheduler_backends.redis.config import RedisConfig
from scheduler_backends.redis.keys import Keys
from scheduler_backends.redis.layouts import Layouts
from scheduler_backends.redis.leasing import Leasing
from scheduler_backends.redis.maintenance import Maintenance
from scheduler_backends.redis.marks import Marks
from scheduler_backends.redis.operating import Operating
from scheduler_backends.redis.producing import Producing
from scheduler_backends.redis.quarantine import Quarantine
from scheduler_backends.redis.reading import Reading
from scheduler_backends.redis.routing import Command
from scheduler_backends.redis.serving import Serving
from scheduler_backends.redis.settling import Settling
from scheduler_backends.redis.topology import Admin
from scheduler_backends.redis.urls import CONNECTION_OPTIONS, router_for_url
from scheduler_backends.redis.wakeups import RedisWaiter
from scheduler_backends.redis.watching import Watch

_CONFIG_OPTIONS: Mapping[str, Parser] = {
    "prefix": str,
    "partitions": int,
    "active_version": int,
    "timeout": float,
    "topology_interval": float,
}
_OPTIONS = {**CONNECTION_OPTIONS, **_CONFIG_OPTIONS, **RETENTION_OPTIONS}


class RedisBackend(Backend):
    """
    Jobs in Redis or Valkey: standalone, behind Sentinel, or in a Cluster.

    *client_or_url*: a URL (redis, rediss, unix, valkey, valkeys, redis+sentinel, redis+cluster), whose options go
    before those of *config* and *retention*, or a client of redis-py, of which the settings are used: every connection
    is this backend's own. Connects when first used, and anew in a forked child. No call waits longer than a small
    multiple of `RedisConfig.timeout`. *clock*: None = the server's own time, which is right everywhere but in tests.
    """

    def __init__(
        self,
        client_or_url: object,
        config: RedisConfig | None = None,
        *,
        retention: Retention | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.config = RedisConfig() if config is None else check_kind("config", config, RedisConfig)
        self.retention = Retention() if retention is None else check_kind("retention", retention, Retention)
        self._shown = type(client_or_url).__name__
        options: dict[str, Option] = {}
        if isinstance(client_or_url, str):
            self._shown = without_password(client_or_url)
            url, options = split_options(client_or_url, _OPTIONS)
            given = {name: options[name] for name in _CONFIG_OPTIONS if name in options}
            self.config = replace(self.config, **given)  # type: ignore[arg-type]  # it checks itself
            if any(name in options for name in RETENTION_OPTIONS):
                self.retention = retention_from(options)
            router = router_for_url(url, options, self.config.timeout)
        else:
            router = router_for_client(client_or_url, self.config.timeout)
        keys = Keys(self.config.prefix)
        self._keys = keys
        self._calls = Calls(router, None if clock is None else check_kind("clock", clock, Clock))
        changes = Changes(self._calls, keys)
        self._layouts = Layouts(self._calls, keys, self.config, changes)
        self._serving = Serving(self._calls, self._layouts, changes, self.config.topology_interval)
        self._producing = Producing(self._calls, self._layouts, keys)
        self._watch = Watch(self._calls)
        marks = Marks(self._calls, keys)
        self._settling = Settling(self._calls, keys, self.retention, marks)
        quarantine = Quarantine(self._calls, keys, self.retention)
        self._leasing = Leasing(self._calls, self._serving, self._settling, quarantine, self._watch, marks)
        self._maintenance = Maintenance(self._calls, self._serving, keys, self.retention, self._watch, marks)
        self._operating = Operating(self._calls, self._layouts, keys, self.retention)
        self._reading = Reading(self._calls, self._layouts, keys)
        self._admin = Admin(self._calls, self._layouts, keys)
        self._waiters: WeakSet[RedisWaiter] = WeakSet()

    @classmethod
    def from_url(cls, url: str) -> Self:
        """A backend for *url*; nothing is connected yet."""
        return cls(url)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._shown} prefix={self.config.prefix!r}>"

    @property
    def clock(self) -> Clock | None:
        """None = the server's own time; tests set one."""
        return self._calls.clock

    @clock.setter
    def clock(self, clock: Clock | None) -> None:
        self._calls.clock = clock

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        """As the contract says; at most 1,000 jobs or 4 MiB of payload go in one round trip."""
        self._calls.check_open()
        return self._producing.enqueue(jobs)

    def promote_due(self, queues: Sequence[str], limit: int) -> Promotion:
        """As the contract says."""
        return self._maintenance.promote(queues_of(queues), check_limit(limit))

    def lease(
        self, queues: Sequence[str], *, token: str, worker_id: str, duration: float, limit: int
    ) -> Sequence[Lease]:
        """As the contract says; at most 1,000 jobs a partition."""
        return self._leasing.lease(
            queues_of(queues),
            check_token(token),
            check_name("worker_id", worker_id, ConfigError),
            check_duration(duration),
            check_limit(limit),
        )

    def renew(self, leases: Sequence[Lease], duration: float) -> Renewal:
        """As the contract says."""
        seconds = check_duration(duration)
        self._calls.check_open()
        return Renewal(refused=self._settling.renew(leases, seconds))

    def complete(self, completions: Sequence[Completion]) -> Sequence[Lease]:
        """As the contract says."""
        self._calls.check_open()
        return self._settling.complete(completions)

    def retry(self, failures: Sequence[Failure]) -> Sequence[Lease]:
        """As the contract says; without a delay the job is ready at once."""
        self._calls.check_open()
        return self._settling.retry(failures)

    def bury(self, failures: Sequence[Failure]) -> Sequence[Lease]:
        """As the contract says."""
        self._calls.check_open()
        return self._settling.bury(failures)

    def release(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        """As the contract says; they are first in line."""
        self._calls.check_open()
        return self._settling.release(leases)

    def recover_expired(self, queues: Sequence[str], limit: int) -> Recovery:
        """As the contract says; recovers whole lease calls, so that one may pass the limit."""
        return self._maintenance.recover(queues_of(queues), check_limit(limit))

    def cancel(self, queue: str, ids: Sequence[str]) -> Sequence[MoveAnswer]:
        """As the contract says."""
        return self._by_id(queue, ids, self._operating.cancel)

    def requeue(self, queue: str, ids: Sequence[str]) -> Sequence[MoveAnswer]:
        """As the contract says; refused in a version that is being completed."""
        return self._by_id(queue, ids, self._operating.requeue)

    def get(self, queue: str, ids: Sequence[str]) -> Mapping[str, Job]:
        """As the contract says."""
        name = check_name("queue", queue, ConfigError)
        possible = [one for one in texts(ids) if is_id(one)]
        self._calls.check_open()
        return self._reading.get(name, possible)

    def list(self, queue: str, state: JobState, *, cursor: str | None = None, limit: int = 100) -> Page:
        """As the contract says: by partition; in each by due time, time of becoming ready, or of finishing."""
        name = check_name("queue", queue, ConfigError)
        return self._reading.page(name, state_of(state), cursor, check_limit(limit))

    def stats(self, queues: Sequence[str] | None = None) -> Sequence[QueueStats]:
        """As the contract says; counts are exact."""
        return self._reading.stats(None if queues is None else queues_of(queues))

    def pause(self, queue: str) -> None:
        """As the contract says."""
        self._operating.pause(check_name("queue", queue, ConfigError), paused=True)

    def resume(self, queue: str) -> None:
        """As the contract says."""
        self._operating.pause(check_name("queue", queue, ConfigError), paused=False)

    def purge(self, queue: str, state: JobState, limit: int) -> int:
        """As the contract says."""
        if state_of(state) is JobState.LEASED:
            raise ConfigError("state", "must not be leased: somebody works on those jobs")
        return self._operating.purge(check_name("queue", queue, ConfigError), state_of(state), check_limit(limit))

    def trim(self, queues: Sequence[str], limit: int) -> int:
        """As the contract says."""
        return self._maintenance.trim(queues_of(queues), check_limit(limit))

    def ping(self) -> None:
        """As the contract says: asks one server, in a cluster the one that knows the queues."""
        self._calls.plain(Command(self._keys.queues, (b"PING",)))

    def close(self) -> None:
        """As the contract says."""
        self._calls.close()
        for waiter in tuple(self._waiters):
            waiter.close()

    def waiter(self, queues: Sequence[str]) -> Waiter:
        """A waiter for news of *queues*, on a connection of its own."""
        self._calls.check_open()
        channels = {self._keys.channel(queue): queue for queue in queues_of(queues)}
        waiter = RedisWaiter(self._calls, channels, self.config.timeout, self._watch, self._serving)
        self._waiters.add(waiter)
        return waiter

    def topology(self, queue: str) -> QueueTopology:
        """As `TopologyAdmin` says."""
        return self._admin.topology(queue)

    def promote_queue_version(self, queue: str, version: int, partitions: int) -> QueueTopology:
        """As `TopologyAdmin` says; producers learn of it by a shut gate, workers at their next poll."""
        return self._admin.promote(queue, version, partitions)

    def complete_draining_version(self, queue: str, version: int, *, finished: Finished = "refuse") -> QueueTopology:
        """As `TopologyAdmin` says; while it runs, no dead job of that version can be requeued."""
        return self._admin.complete(queue, version, finished)

    def _by_id(
        self, queue: str, ids: Sequence[str], move: Callable[[str, Sequence[str]], Sequence[MoveAnswer]]
    ) -> Sequence[MoveAnswer]:
        name, asked = check_name("queue", queue, ConfigError), texts(ids)
        self._calls.check_open()
        moved = iter(move(name, [one for one in asked if is_id(one)]))
        return [next(moved) if is_id(one) else MoveAnswer(id=one, moved=False, state=None) for one in asked]
