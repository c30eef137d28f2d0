"""Records, histories, indexes and topologies damaged by hand: they harm nobody else, and nothing is lost silently."""

from __future__ import annotations

import logging
from struct import Struct

import pytest

from scheduler.errors import BackendError, ConfigError, TopologyError
from scheduler.identity import new_token
from scheduler.jobs import UNREADABLE, ErrorDetail, NewJob
from scheduler.leases import Completion, Failure, Lease
from scheduler.queues import Retention, cursor_of
from scheduler.states import JobState
from scheduler.testing import ManualClock
from scheduler_backends.redis import RedisBackend
from scheduler_backends.redis.keys import Keys
from wait_timeout import until

HISTORY = Struct("<IIB").pack(2, 1, 1) + Struct("<IqI").pack(15, 1, 1) + b"E\0\0"  # of two attempts and an error


@pytest.fixture
def key(backend):
    """How the keys of the one partition are called."""
    return Keys(backend.config.prefix).partition("default", 1, 0).key


def lease(backend: RedisBackend, limit: int = 10, duration: float = 60.0) -> list[Lease]:
    return list(backend.lease(["default"], token=new_token(), worker_id="w", duration=duration, limit=limit))


def add(backend: RedisBackend, *ids: str, **fields: object) -> None:
    backend.enqueue([NewJob(type="t", id=one, **fields) for one in ids])


def warnings(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def ids(leases) -> list[str]:
    return [one.job.id for one in leases]


@pytest.mark.parametrize("damage", [b"", b"\x00", b"garbage" * 30, b"\x01" * 17, bytes(16) + b"\x20" + bytes(80)])
def test_a_record_that_cannot_be_read_makes_a_dead_job_and_stays_as_it_is(backend, raw, key, caplog, damage):
    add(backend, "before", "bad", "after")
    raw.hset(key("jobs"), "bad", damage)
    raw.hset(key("history"), "bad", HISTORY)
    assert ids(lease(backend)) == ["before", "after"]
    assert lease(backend) == []
    assert (raw.hget(key("jobs"), "bad"), raw.hget(key("history"), "bad")) == (damage, HISTORY)
    job = backend.get("default", ["bad"])["bad"]
    assert (job.state, job.attempts, [error.kind for error in job.errors]) == (JobState.DEAD, 2, ["E", UNREADABLE])
    (told,) = warnings(caplog)
    assert "'bad'" in told
    assert told.endswith(job.last_error.message)
    assert backend.list("default", JobState.DEAD).jobs == (job,)
    counts = backend.stats(["default"])[0].counts
    assert (counts[JobState.LEASED], counts[JobState.DEAD]) == (2, 1)


def test_a_job_that_could_not_be_read_runs_when_it_can_be_read_again(backend, raw, key):
    """A release that knows its record needs no more than a requeue."""
    add(backend, "one")
    record = raw.hget(key("jobs"), "one")
    raw.hset(key("jobs"), "one", b"?")
    assert not lease(backend)
    raw.hset(key("jobs"), "one", record)
    assert backend.requeue("default", ["one"])[0].moved
    assert ids(lease(backend)) == ["one"]


def test_a_job_of_a_later_format_waits_for_a_release_that_knows_it(new_backend, redis_url, raw, caplog):
    clock = ManualClock()
    backend = new_backend(redis_url, partitions=1, clock=clock)
    place = Keys(backend.config.prefix).partition("default", 1, 0).key("jobs")
    add(backend, *(f"new{number}" for number in range(3)), "good", max_retries=0)
    records = {f"new{number}": raw.hget(place, f"new{number}") for number in range(3)}
    later = {one: record[:16] + b"\x03" + record[17:] for one, record in records.items()}
    raw.hset(place, mapping=later)
    assert ids(lease(backend)) == ["good"]
    for _ in range(5):
        clock.advance(120.0)
        backend.promote_due(["default"], 100)
        assert not lease(backend)
    jobs = backend.get("default", later)
    assert {(job.state, job.attempts, job.crashes) for job in jobs.values()} == {(JobState.RETRY_WAIT, 0, 0)}
    assert {one: raw.hget(place, one) for one in later} == later
    (told,) = warnings(caplog)  # in a minute of real time
    assert "format 3" in told
    raw.hset(place, mapping=records)  # what a newer release reads
    clock.advance(120.0)
    backend.promote_due(["default"], 100)
    assert sorted(ids(lease(backend))) == sorted(records)


def test_recovery_leaves_a_job_of_a_later_format_its_attempts(new_backend, redis_url, raw):
    """A worker of a newer release held it and died."""
    clock = ManualClock()
    backend = new_backend(redis_url, partitions=1, clock=clock)
    place = Keys(backend.config.prefix).partition("default", 1, 0).key
    add(backend, "new", max_retries=0)
    record = raw.hget(place("jobs"), "new")
    for _ in range(3):
        raw.hset(place("jobs"), "new", record)
        assert ids(lease(backend)) == ["new"]
        raw.hset(place("jobs"), "new", record[:16] + b"\x03" + record[17:])
        clock.advance(120.0)
        assert backend.recover_expired(["default"], 100).dead == 0
    assert not raw.exists(place("history"))


def test_nothing_but_damaged_jobs_is_no_empty_queue(backend, raw, key):
    """An empty answer means that nothing was leasable: the good job behind the bad ones is found by the same call."""
    bad = [f"bad{number}" for number in range(1_100)]
    add(backend, *bad, "good")
    raw.hset(key("jobs"), mapping=dict.fromkeys(bad, b"x"))
    assert ids(lease(backend, limit=1_000)) == ["good"]
    assert backend.stats(["default"])[0].counts[JobState.DEAD] == 1_100


def test_a_ready_entry_without_a_record_is_dropped(backend, raw, key, caplog):
    add(backend, "gone", "good")
    raw.hdel(key("jobs"), "gone")
    assert ids(lease(backend)) == ["good"]
    (told,) = warnings(caplog)
    assert "'gone'" in told
    assert sum(backend.stats(["default"])[0].counts.values()) == 1


def test_an_entry_that_is_no_entry_is_dropped(backend, raw, key):
    add(backend, "good")
    raw.lpush(key("ready2"), b"", b"short", b"\xff\xfe\xfd not text \x00")
    assert [job.id for job in backend.list("default", JobState.READY).jobs] == ["good"]
    assert ids(lease(backend)) == ["good"]
    assert lease(backend) == []


def test_a_job_whose_id_is_no_text_is_dead_and_can_be_purged(backend, raw, key):
    add(backend, "good")
    raw.hset(key("jobs"), b"\xff", raw.hget(key("jobs"), "good"))
    raw.rpush(key("ready2"), b"123456\xff")
    assert ids(lease(backend)) == ["good"]
    (job,) = backend.list("default", JobState.DEAD).jobs
    assert (job.id, job.unreadable) == ("\\xff", ("id",))
    assert backend.purge("default", JobState.DEAD, 10) == 1
    assert not backend.list("default", JobState.DEAD).jobs


def test_a_job_listed_twice_is_leased_once(backend, raw, key):
    add(backend, "one", "two")
    raw.rpush(key("ready2"), *raw.lrange(key("ready2"), 0, -1))
    leases = lease(backend)
    assert sorted(ids(leases)) == ["one", "two"]
    assert not backend.complete([Completion(lease=one) for one in leases])
    assert lease(backend) == []
    assert not backend.get("default", ["one", "two"])


def test_a_job_listed_as_ready_while_it_is_leased_keeps_its_holder(backend, raw, key):
    add(backend, "one")
    entry = raw.lindex(key("ready2"), 0)
    (held,) = lease(backend)
    raw.rpush(key("ready2"), entry)
    assert lease(backend) == []
    assert backend.complete([Completion(lease=held)]) == []


def test_a_scheduled_entry_without_a_record_holds_up_nobody(backend, raw, key):
    add(backend, "good", delay=0.001)
    raw.zadd(key("scheduled"), {"ghost": 0})
    raw.hset(key("meta"), "due", 0)
    while backend.promote_due(["default"], 100).next_due is not None:
        pass
    assert ids(lease(backend)) == ["good"]


def test_a_lost_bound_of_the_next_due_time_is_found_again(backend, raw, key):
    add(backend, "good", delay=0.001)
    raw.hdel(key("meta"), "due")
    while backend.promote_due(["default"], 100).next_due is not None:
        pass
    assert ids(lease(backend)) == ["good"]


@pytest.mark.parametrize("settle", ["complete", "retry", "bury", "release"])
def test_a_leased_job_whose_record_is_gone_is_refused_and_leased_no_more(new_backend, redis_url, raw, settle, caplog):
    """There is nothing of which an outcome could be kept."""
    backend = new_backend(redis_url, partitions=1, retention=Retention(succeeded=60.0))
    add(backend, "bad", "good", "well")
    held = lease(backend)
    raw.hdel(Keys(backend.config.prefix).partition("default", 1, 0).key("jobs"), "bad")
    settled = (
        held if settle == "release" else [(Completion if settle == "complete" else Failure)(lease=one) for one in held]
    )
    assert ids(getattr(backend, settle)(settled)) == ["bad"]
    counts = backend.stats(["default"])[0].counts
    assert counts[JobState.LEASED] == 0
    assert sum(counts.values()) == 2
    (told,) = warnings(caplog)
    assert "'bad'" in told


def test_recovery_lets_go_of_what_has_no_record_and_recovers_the_rest(backend, raw, key):
    add(backend, "bad", "good")
    lease(backend, duration=0.001)
    raw.hdel(key("jobs"), "bad")
    recovered = 0
    while not recovered:
        recovered = backend.recover_expired(["default"], 100).ready
    assert ids(lease(backend)) == ["good"]
    assert sum(backend.stats(["default"])[0].counts.values()) == 1


def test_recovery_finds_the_jobs_of_a_group_whose_list_is_gone(backend, raw, key):
    add(backend, "one", "two")
    lease(backend, duration=0.001)
    raw.delete(key("lease_members"))
    recovered = 0
    while not recovered:
        recovered = backend.recover_expired(["default"], 100).ready
    assert recovered == 2
    assert sorted(ids(lease(backend))) == ["one", "two"]


def test_a_lease_without_an_expiry_is_found_when_the_queue_is_trimmed(backend, raw, key):
    """Nothing but damage makes one; `trim`, which a worker calls now and then, mends it."""
    add(backend, "one", "two")
    lease(backend)
    raw.delete(key("expiry"))
    assert backend.recover_expired(["default"], 100).next_expiry is None
    backend.trim(["default"], 100)
    recovered = 0
    while not recovered:
        recovered = backend.recover_expired(["default"], 100).ready
    assert recovered == 2


def test_a_job_in_no_index_is_found_when_the_queue_is_trimmed(backend, raw, key):
    add(backend, "lost", "good")
    add(backend, "later", "lost later", delay=60.0)
    raw.lpop(key("ready2"))
    raw.zrem(key("scheduled"), "lost later")
    assert ids(lease(backend)) == ["good"]
    backend.trim(["default"], 100)
    assert sorted(ids(lease(backend))) == ["lost", "lost later"]


def test_an_undamaged_queue_is_left_as_it_is_when_trimmed(backend, caplog):
    add(backend, *"abcdef")
    add(backend, "later", delay=60.0)
    held = lease(backend, limit=4)
    backend.cancel("default", ["e"])
    backend.complete([Completion(lease=held[0])])
    backend.bury([Failure(lease=held[1])])
    backend.retry([Failure(lease=held[2], delay=60.0)])
    before = backend.stats(["default"])[0].counts
    backend.trim(["default"], 100)
    assert backend.stats(["default"])[0].counts == before
    assert not warnings(caplog)


@pytest.mark.parametrize("settle", ["retry", "bury", "recover"])
@pytest.mark.parametrize(
    "past", [b"zz", b"\xff" * 20, HISTORY[:-1], HISTORY + b"x", HISTORY[:8] + b"\x02" + HISTORY[9:]]
)
def test_a_history_damaged_meanwhile_is_left_to_the_next_lease(new_backend, redis_url, raw, settle, past):
    """No script fails of it or writes over it, and the job's attempts end."""
    clock = ManualClock()
    backend = new_backend(redis_url, partitions=1, clock=clock)
    place = Keys(backend.config.prefix).partition("default", 1, 0).key("history")
    add(backend, "bad", "good", max_retries=0)
    held = lease(backend)
    raw.hset(place, "bad", past)
    failures = [Failure(lease=one, error=ErrorDetail(kind="E")) for one in held]
    if settle == "recover":
        clock.advance(120.0)
        recovery = backend.recover_expired(["default"], 100)
        assert (recovery.ready, recovery.dead) == (1, 1)
    else:
        assert not getattr(backend, settle)(failures)
    assert "bad" not in ids(lease(backend))
    job = backend.get("default", ["bad"])["bad"]
    assert (job.state, job.unreadable) == (JobState.DEAD, ("attempts", "crashes", "errors"))
    assert raw.hget(place, "bad") == past
    assert backend.requeue("default", ["bad"])[0].moved
    assert raw.hget(place, "bad") == past


def test_a_new_job_outlives_the_retention_of_an_old_one_of_its_id(new_backend, redis_url, raw):
    """The old one's record was removed by hand, and its entry among the finished ones stayed."""
    clock = ManualClock()
    backend = new_backend(
        redis_url, partitions=1, clock=clock, retention=Retention(succeeded=60.0, cancelled=60.0, dead=60.0)
    )
    place = Keys(backend.config.prefix).partition("default", 1, 0).key
    ends = {"ready": JobState.READY, "later": JobState.SCHEDULED, "held": JobState.LEASED, "dead": JobState.DEAD}
    names = [f"{old}-{new}" for old in ("done", "buried", "off") for new in ends]
    add(backend, *names)
    backend.cancel("default", [one for one in names if one.startswith("off")])
    held = lease(backend, limit=100)
    backend.complete([Completion(lease=one) for one in held if one.job.id.startswith("done")])
    backend.bury([Failure(lease=one) for one in held if one.job.id.startswith("buried")])
    raw.hdel(place("jobs"), *names)
    clock.advance(1.0)
    add(backend, *(one for one in names if not one.endswith("later")), payload=b"new")
    add(backend, *(one for one in names if one.endswith("later")), payload=b"new", delay=3_600.0)
    new = lease(backend, limit=100)
    assert len(new) == 9
    backend.bury([Failure(lease=one) for one in new if one.job.id.endswith("-dead")])
    backend.release([one for one in new if one.job.id.endswith("ready")])
    clock.advance(59.5)  # for the old ones that is it
    backend.trim(["default"], 100)
    jobs = backend.get("default", names)
    assert {one: job.state for one, job in jobs.items()} == {one: ends[one.split("-")[1]] for one in names}
    assert {job.payload for job in jobs.values()} == {b"new"}


@pytest.mark.parametrize("state", [state for state in JobState if state is not JobState.LEASED])
def test_purge_deletes_no_job_of_another_state_whose_id_stands_in_its_index(backend, raw, key, state):
    add(backend, "held")
    (held,) = lease(backend)
    index = {JobState.RETRY_WAIT: "waiting"}.get(state, state.value)
    if state is JobState.READY:
        raw.rpush(key("ready2"), b"123456held")
    else:
        raw.zadd(key(index), {"held": 1})
    assert backend.purge("default", state, 10) == 1
    assert backend.get("default", ["held"])["held"].state is JobState.LEASED
    assert not backend.complete([Completion(lease=held)])


def test_finished_jobs_are_trimmed_although_the_clock_was_set_back(new_backend, redis_url):
    clock = ManualClock()
    backend = new_backend(redis_url, partitions=1, clock=clock, retention=Retention(dead=60.0))
    add(backend, "one")
    clock.advance(-3_600.0)
    backend.bury([Failure(lease=one) for one in lease(backend)])
    clock.advance(61.0)
    backend.trim(["default"], 100)
    assert not backend.get("default", ["one"])
    assert not any(backend.stats(["default"])[0].counts.values())


TOPOLOGIES = {
    "active a text": {"active": "one"},
    "active of no version": {"active": "7"},
    "epoch a text": {"epoch": "soon"},
    "a version a text": {"v:abc": "8"},
    "a size a text": {"v:1": "x"},
    "a size of a million": {"v:1": "1000000"},
    "pause a text": {"pause": "maybe"},
}


@pytest.mark.parametrize("fields", TOPOLOGIES.values(), ids=TOPOLOGIES)
def test_a_damaged_topology_is_refused_by_the_name_of_its_queue_until_it_is_mended(
    backend, new_backend, redis_url, raw, fields
):
    add(backend, "one")
    topology = Keys(backend.config.prefix).topology("default")
    before = raw.dump(topology)
    raw.hset(topology, mapping=fields)
    other = new_backend(redis_url, partitions=1)
    calls = (
        lambda: add(other, "two"),
        lambda: other.get("default", ["one"]),
        lambda: other.list("default", JobState.READY),
        lambda: other.stats(["default"]),
        lambda: other.pause("default"),
        lambda: other.purge("default", JobState.READY, 1),
        lambda: other.topology("default"),
        lambda: other.promote_queue_version("default", 2, 2),
    )
    for call in calls:
        with pytest.raises(TopologyError, match="'default' is damaged"):
            call()
    assert other.stats() == []
    assert lease(other) == []
    raw.restore(topology, 0, before, replace=True)
    assert ids(lease(other)) == ["one"]


def test_numbers_of_a_partition_that_are_none_are_found_anew(backend, new_backend, redis_url, raw, key):
    """Nobody is locked out or woken too late by them, and no cancelled job runs."""
    add(backend, "off", "one", "two")
    add(backend, "later", delay=0.001)
    held = lease(backend, limit=1)
    backend.release(held)
    keeping = new_backend(redis_url, partitions=1, retention=Retention(cancelled=60.0))
    keeping.cancel("default", ["one"])  # its entry stays behind the first, and its record as well
    raw.hset(key("meta"), mapping={"due": "x", "tombstones": "many", "pause": "", "gate": "ajar", "closing": "soon"})
    add(backend, "new")
    while backend.promote_due(["default"], 100).next_due is not None:
        pass
    assert sorted(ids(lease(backend))) == ["later", "new", "off", "two"]
    backend.pause("default")
    add(backend, "paused")
    assert lease(backend) == []
    backend.resume("default")
    assert ids(lease(backend)) == ["paused"]
    assert backend.stats(["default"])[0].counts[JobState.READY] == 0
    assert raw.hget(key("meta"), "tombstones") == b"0"


@pytest.mark.parametrize("settle", ["complete", "retry", "bury", "release"])
def test_a_damaged_count_of_a_lease_call_keeps_nobody_from_settling(backend, raw, key, settle):
    add(backend, "one", "two")
    held = lease(backend)
    group = bytes.fromhex(held[0].token)
    raw.hset(key("lease_members"), b"n" + group, "many")
    for one in held:
        wrapped = one if settle == "release" else (Completion if settle == "complete" else Failure)(lease=one)
        assert not getattr(backend, settle)([wrapped])
    assert not raw.zcard(key("expiry"))
    assert not raw.exists(key("lease_members"))


def test_scores_that_nobody_here_writes_keep_no_job_for_ever(new_backend, redis_url, raw):
    """Found when the queue is trimmed."""
    clock = ManualClock()
    backend = new_backend(redis_url, partitions=1, clock=clock)
    place = Keys(backend.config.prefix).partition("default", 1, 0).key
    add(backend, "held", "waiting")
    backend.retry([Failure(lease=one, delay=10.0) for one in lease(backend) if one.job.id == "waiting"])
    add(backend, "scheduled", delay=10.0)
    for index in ("scheduled", "waiting", "expiry"):
        for member in raw.zrange(place(index), 0, -1):
            raw.zadd(place(index), {member: float("inf")})
    jobs = backend.get("default", ["held", "waiting", "scheduled"])
    assert {job.unreadable for job in jobs.values()} == {()}
    clock.advance(120.0)
    backend.trim(["default"], 100)
    assert backend.recover_expired(["default"], 100).ready == 1
    assert backend.promote_due(["default"], 100).moved == 2
    assert sorted(ids(lease(backend))) == ["held", "scheduled", "waiting"]


def test_cancelled_jobs_whose_number_is_lost_are_not_leased_once_the_queue_was_trimmed(new_backend, redis_url, raw):
    backend = new_backend(redis_url, partitions=1, retention=Retention(cancelled=60.0))
    add(backend, "one", "off", "two")
    backend.cancel("default", ["off"])
    raw.hdel(Keys(backend.config.prefix).partition("default", 1, 0).key("meta"), "tombstones")
    backend.trim(["default"], 100)
    assert ids(lease(backend)) == ["one", "two"]


def test_leases_whose_members_are_damaged_come_back(backend, raw, key):
    add(backend, "one", "two")
    (held, _) = lease(backend, duration=0.001)
    raw.hset(key("lease_members"), bytes.fromhex(held.token), b"\xff\0\0x")
    recovered = 0
    while recovered < 2:
        recovered += backend.recover_expired(["default"], 100).ready
        backend.trim(["default"], 100)
    assert sorted(ids(lease(backend))) == ["one", "two"]


def server_time(raw) -> float:
    seconds, microseconds = raw.time()
    return seconds + microseconds / 1_000_000


WRITTEN = {
    "enqueue": ("ready2", "scheduled", "jobs", "history", "cancelled"),
    "promote_due": ("ready2",),
    "lease": ("leased", "expiry", "lease_members"),
    "retry": ("waiting", "history"),
    "bury": ("dead", "history"),
    "release": ("ready2",),
    "recover_expired": ("ready2", "history"),
}


@pytest.mark.parametrize(("move", "target"), [(move, target) for move, keys in WRITTEN.items() for target in keys])
def test_a_destination_of_the_wrong_type_leaves_the_jobs_where_they_are(backend, raw, key, move, target):
    """Guarantee 8: a script that fails keeps its earlier writes, so ours write when they know that all will pass."""
    jobs = [f"job{number}" for number in range(50)]
    held: list[Lease] = []
    if move == "promote_due":
        add(backend, *jobs, delay=0.001)
        raw.hset(key("meta"), "due", 0)
    elif move != "enqueue":
        add(backend, *jobs)
        if move != "lease":
            held = lease(backend, limit=50, duration=0.001 if move == "recover_expired" else 60.0)
    else:
        add(backend, "other", delay=60.0)
        add(backend, "another")
    if move in {"promote_due", "recover_expired"}:
        begun = server_time(raw)
        until(lambda: server_time(raw) > begun + 0.002)  # until all are due, and expired
    saved = raw.dump(key(target))
    before = {
        name: raw.dump(key(name)) for name in ("jobs", "leased", "ready2", "scheduled", "waiting") if name != target
    }
    raw.set(key(target), "of the wrong type") if not saved else raw.execute_command("SET", key(target), "wrong")
    calls = {
        "enqueue": lambda: add(backend, *jobs, **({"delay": 60.0} if target == "scheduled" else {})),
        "promote_due": lambda: backend.promote_due(["default"], 100),
        "lease": lambda: lease(backend, limit=50),
        "retry": lambda: backend.retry([Failure(lease=one, delay=60.0) for one in held]),
        "bury": lambda: backend.bury([Failure(lease=one) for one in held]),
        "release": lambda: backend.release(held),
        "recover_expired": lambda: backend.recover_expired(["default"], 100),
    }
    if held and move != "recover_expired":  # no repeat would help: their holder is not to wait for it
        assert calls[move]() == held
    else:
        with pytest.raises(BackendError):
            calls[move]()
    after = {name: raw.dump(key(name)) for name in before}
    assert after == before
    raw.delete(key(target))
    if saved:
        raw.restore(key(target), 0, saved)
    calls[move]()
    counts = backend.stats(["default"])[0].counts
    assert sum(counts.values()) == 50 + (2 if move == "enqueue" else 0)


@pytest.mark.parametrize("raw_id", [b"a\nb", b"\x7f", b"x" * 201])
def test_a_job_whose_id_is_impossible_is_dead_before_it_runs(backend, raw, key, raw_id):
    """No outcome of it could be recorded: completions name possible ids only."""
    add(backend, "bad")
    raw.hset(key("jobs"), raw_id, raw.hget(key("jobs"), "bad"))
    raw.hdel(key("jobs"), "bad")
    (entry,) = raw.lrange(key("ready2"), 0, -1)
    raw.delete(key("ready2"))
    raw.rpush(key("ready2"), entry[:6] + raw_id)
    add(backend, "good")
    assert ids(lease(backend)) == ["good"]
    (job,) = backend.list("default", JobState.DEAD).jobs
    assert job.id.encode() == raw_id
    assert job.unreadable == ("id",)


@pytest.mark.parametrize("kept", [0.0, 60.0])
@pytest.mark.parametrize("settle", ["complete", "retry", "bury", "release"])
def test_an_old_lease_settles_no_new_job_of_the_same_id(new_backend, redis_url, raw, settle, kept):
    backend = new_backend(redis_url, partitions=1, retention=Retention(succeeded=kept))
    place = Keys(backend.config.prefix).partition("default", 1, 0).key
    add(backend, "one", "other")
    held = lease(backend)
    raw.hset(place("history"), "one", HISTORY)
    raw.hdel(place("jobs"), "one")
    assert backend.enqueue([NewJob(type="new", id="one")])[0].is_new
    settled = (
        held if settle == "release" else [(Completion if settle == "complete" else Failure)(lease=one) for one in held]
    )
    assert ids(getattr(backend, settle)(settled)) == ["one"]
    assert not raw.exists(place("lease_members"), place("expiry"))
    (job,) = [one.job for one in lease(backend) if one.job.id == "one"]
    assert (job.type, job.attempts) == ("new", 1)


@pytest.mark.parametrize("score", ["inf", "-inf", "1e300"])
def test_an_expiry_that_nobody_here_writes_spoils_no_repeated_lease_call(backend, raw, key, score):
    add(backend, "one")
    token = new_token()

    def held() -> list[Lease]:
        return list(backend.lease(["default"], token=token, worker_id="w", duration=60.0, limit=10))

    held()
    raw.zadd(key("expiry"), {bytes.fromhex(token): score})
    assert ids(held()) == ["one"]


@pytest.mark.parametrize("score", ["inf", "-inf", "-5.5", "1e-7", "-1e20", "1e300"])
def test_a_list_goes_on_behind_any_score(backend, raw, key, score):
    add(backend, "one", "two", "three")
    backend.bury([Failure(lease=one) for one in lease(backend)])
    raw.zadd(key("dead"), {"two": score})
    found, cursor = [], None
    while len(found) < 9:
        page = backend.list("default", JobState.DEAD, cursor=cursor, limit=1)
        found += [job.id for job in page.jobs]
        cursor = page.cursor
        if cursor is None:
            break
    assert sorted(found) == ["one", "three", "two"]


def test_a_list_of_members_that_is_too_long_harms_nobody(backend, raw, key):
    add(backend, "one")
    token = new_token()
    backend.lease(["default"], token=token, worker_id="w", duration=60.0, limit=10)
    names = b"\0".join(b"foreign %d" % number for number in range(9_000)) + b"\0one"
    raw.hset(key("lease_members"), bytes.fromhex(token), names)
    assert [job.id for job in backend.list("default", JobState.LEASED).jobs] == ["one"]
    assert ids(backend.lease(["default"], token=token, worker_id="w", duration=60.0, limit=10)) == ["one"]


@pytest.mark.parametrize(
    "state", [JobState.SCHEDULED, JobState.RETRY_WAIT, JobState.DEAD, JobState.SUCCEEDED, JobState.CANCELLED]
)
@pytest.mark.parametrize("delay", [None, 900.0])
def test_a_new_job_takes_nothing_over_from_an_old_one_whose_record_is_gone(new_backend, redis_url, raw, state, delay):
    kept = Retention(succeeded=600.0, dead=600.0, cancelled=600.0)
    backend = new_backend(redis_url, partitions=1, retention=kept)
    place = Keys(backend.config.prefix).partition("default", 1, 0).key
    add(backend, "one", "stays", delay=600.0 if state is JobState.SCHEDULED else None)
    held = lease(backend)
    failures = [Failure(lease=one, delay=600.0, error=ErrorDetail(kind="Old")) for one in held]
    if state is JobState.RETRY_WAIT:
        backend.retry(failures)
    elif state is JobState.DEAD:
        backend.bury(failures)
    elif state is JobState.SUCCEEDED:
        backend.complete([Completion(lease=one) for one in held])
    elif state is JobState.CANCELLED:
        backend.release(held)
        backend.cancel("default", ["one", "stays"])
    before = backend.get("default", ["stays"])
    assert before["stays"].state is state
    raw.hdel(place("jobs"), "one")
    new, repeat = backend.enqueue([NewJob(type="new", id=one, delay=delay) for one in ("one", "stays")])
    assert (new.is_new, repeat.is_new) == (True, False)
    job = backend.get("default", ["one"])["one"]
    assert (job.type, job.attempts, job.errors) == ("new", 0, ())
    assert job.state is (JobState.READY if delay is None else JobState.SCHEDULED)
    assert backend.get("default", ["stays"]) == before
    counts = backend.stats(["default"])[0].counts
    assert (counts[state], sum(counts.values())) == (2 if job.state is state else 1, 2)


@pytest.mark.parametrize("level", [b"0_1", b" 1", b"4", b"1_0"])
def test_a_cursor_with_a_changed_level_is_refused(backend, level):
    add(backend, "one")
    with pytest.raises(ConfigError):
        backend.list("default", JobState.READY, cursor=ready_place(level, b"1"))


@pytest.mark.parametrize("occurrence", [b"1_0", b"9" * 20, b"+1", b"0", b"01"])
def test_a_cursor_with_a_changed_occurrence_is_refused(backend, occurrence):
    """The server would refuse most of them as well, but as an error of the store."""
    add(backend, "one")
    assert len(backend.list("default", JobState.READY, cursor=ready_place(b"0", b"1")).jobs) == 1
    with pytest.raises(ConfigError):
        backend.list("default", JobState.READY, cursor=ready_place(b"0", occurrence))


def ready_place(level, occurrence):
    words = ".".join(word.hex() for word in (level, b"entry", occurrence))
    return cursor_of("default", JobState.READY, f"1.0.{words}")
