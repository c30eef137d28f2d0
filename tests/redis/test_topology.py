"""Versions changed under producers and workers that know nothing of it: nothing is stranded."""

from __future__ import annotations

import threading
from contextlib import suppress
from itertools import chain

import pytest

from scheduler.abilities import TopologyAdmin, Wakeups
from scheduler.errors import BackendUnavailable, TopologyError
from scheduler.identity import new_token
from scheduler.jobs import ErrorDetail, NewJob
from scheduler.leases import Completion, Failure
from scheduler.states import JobState
from scheduler.topology import partition_of
from scheduler_backends.redis import scripts, versions
from scheduler_backends.redis.codec import body_of
from scheduler_backends.redis.keys import Keys
from wait_timeout import WAIT_TIMEOUT, until


def add(backend, *ids, **fields):
    return backend.enqueue([NewJob(type="t", id=one, **fields) for one in ids])


def lease(backend, limit=1_000):
    leases = []
    while more := backend.lease(["default"], token=new_token(), worker_id="w", duration=600.0, limit=limit):
        leases += more
    return leases


def complete(backend) -> list[str]:
    leases = lease(backend)
    assert backend.complete([Completion(lease=one) for one in leases]) == []
    return [one.job.id for one in leases]


def names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def test_both_abilities_are_offered(backend):
    assert isinstance(backend, TopologyAdmin)
    assert isinstance(backend, Wakeups)


def test_a_producer_with_an_old_layout_meets_a_sealed_gate_and_finds_the_new_version(new_backend, redis_url):
    admin, stale = (new_backend(redis_url, partitions=4, topology_interval=3_600.0) for _ in range(2))
    add(stale, *names("old", 40))
    admin.promote_queue_version("default", 2, 8)
    answers = add(stale, *names("new", 40))
    assert {answer.job.queue_version for answer in answers} == {2}
    assert all(answer.job.partition == partition_of(answer.job.id, 8) for answer in answers)
    assert sorted(complete(admin)) == sorted([*names("old", 40), *names("new", 40)])
    assert admin.complete_draining_version("default", 1).draining == ()


def test_a_producer_that_never_saw_a_partition_opens_no_gate_of_an_old_version(new_backend, redis_url):
    """The gate that is absent is the dangerous one: the producer looks again before it opens any."""
    admin, stale = (new_backend(redis_url, partitions=64, topology_interval=3_600.0) for _ in range(2))
    add(stale, "first")
    admin.promote_queue_version("default", 2, 3)
    assert {answer.job.queue_version for answer in add(stale, *names("new", 200))} == {2}


def test_jobs_that_entered_an_old_version_at_the_last_moment_are_served_and_keep_it_listed(new_backend, redis_url, raw):
    """A producer that had passed the look at the topology, and paused there, opens and fills an unsealed old gate."""
    admin = new_backend(redis_url, partitions=2)
    add(admin, "first")
    complete(admin)
    admin.promote_queue_version("default", 2, 2)
    late = Keys(admin.config.prefix).partition("default", 1, 0)
    raw.hdel(late.key("meta"), "gate")  # as if this gate had not been sealed yet
    old = admin._store.layouts.of("default")
    admin._store.layouts.open(old, [late])
    admin._store.calls.one(scripts.ENQUEUE, late, b"", b"channel", b"late", b"", body_of(NewJob(type="t", id="late")))
    with pytest.raises(TopologyError) as refusal:
        admin.complete_draining_version("default", 1)
    assert refusal.value.counts == {"ready": 1}
    assert complete(new_backend(redis_url)) == ["late"]
    admin.complete_draining_version("default", 1)


def test_a_retired_version_lets_nobody_in_ever_again(new_backend, redis_url, raw):
    admin = new_backend(redis_url, partitions=2)
    stale = new_backend(redis_url, partitions=2, topology_interval=3_600.0)
    add(stale, *names("a", 10))
    complete(admin)
    admin.promote_queue_version("default", 2, 2)
    admin.complete_draining_version("default", 1)
    assert {answer.job.queue_version for answer in add(stale, *names("b", 10))} == {2}
    for number in range(2):
        partition = Keys(admin.config.prefix).partition("default", 1, number)
        assert raw.hget(partition.key("meta"), "gate") == b"sealed"
        assert set(raw.scan_iter(partition.tag.decode() + "*")) == {partition.key("meta")}


def test_a_worker_that_slept_through_a_change_looks_into_every_version(new_backend, redis_url):
    admin, worker = (new_backend(redis_url, partitions=2, topology_interval=3_600.0) for _ in range(2))
    add(admin, "one")
    assert complete(worker) == ["one"]
    admin.promote_queue_version("default", 2, 5)
    add(admin, *names("two", 20))
    assert sorted(complete(worker)) == sorted(names("two", 20))
    admin.promote_queue_version("default", 3, 1)
    add(admin, "later", delay=0.001)
    while worker.promote_due(["default"], 100).next_due is not None:
        pass
    assert complete(worker) == ["later"]


def test_a_queue_that_appears_is_found_by_a_worker_that_polled_before(new_backend, redis_url):
    worker, producer = (new_backend(redis_url, topology_interval=3_600.0) for _ in range(2))
    assert lease(worker) == []
    add(producer, "one")
    assert complete(worker) == ["one"]


def test_retries_stay_in_their_version_and_are_found_there(new_backend, redis_url):
    backend = new_backend(redis_url, partitions=4)
    add(backend, *names("job", 20))
    held = lease(backend)
    backend.promote_queue_version("default", 2, 8)
    assert backend.retry([Failure(lease=one, delay=0.001, error=ErrorDetail(kind="E")) for one in held]) == []
    while backend.promote_due(["default"], 100).next_due is not None:
        pass
    again = lease(backend)
    assert {(one.job.queue_version, one.job.attempts) for one in again} == {(1, 2)}
    assert len(again) == 20


def test_requeue_is_refused_while_a_version_is_completed_and_allowed_after_a_failed_try(new_backend, redis_url):
    backend = new_backend(redis_url, partitions=1)
    add(backend, "dead", "ready")
    held = lease(backend)
    backend.bury([Failure(lease=one) for one in held if one.job.id == "dead"])
    backend.promote_queue_version("default", 2, 1)
    old = backend._store.layouts.of("default", fresh=True).versions[1]
    versions.seal(backend._store, old, b"0a", closing=versions.CLOSING)
    (answer,) = backend.requeue("default", ["dead"])
    assert (answer.moved, answer.state) == (False, JobState.DEAD)
    versions.stop_closing(backend._store, old, b"0a")
    with pytest.raises(TopologyError) as refusal:
        backend.complete_draining_version("default", 1, finished="move")
    assert refusal.value.counts == {"leased": 1}
    (answer,) = backend.requeue("default", ["dead"])
    assert answer.moved


def test_a_finished_job_that_is_there_already_is_kept_when_moved(new_backend, redis_url):
    """A move that was cut short after it had copied: the repeat neither doubles nor overwrites."""
    backend = new_backend(redis_url, partitions=1)
    add(backend, *names("job", 450))
    backend.bury([Failure(lease=one, error=ErrorDetail(kind="E")) for one in lease(backend)])
    backend.promote_queue_version("default", 2, 3)
    layout = backend._store.layouts.of("default", fresh=True)
    (old,) = layout.versions[1]
    _, _, _, _, *flat = backend._store.calls.one(scripts.LIST, old, b"dead", 100, b"", b"", b"")
    versions.import_finished(backend._store, "default", dict(zip(flat[::2], flat[1::2], strict=True)))
    assert backend.complete_draining_version("default", 1, finished="move").draining == ()
    jobs = backend.get("default", names("job", 450))
    assert len(jobs) == 450
    assert {(job.state, job.queue_version, job.attempts, len(job.errors)) for job in jobs.values()} == {
        (JobState.DEAD, 2, 1, 1)
    }
    assert backend.stats(["default"])[0].counts[JobState.DEAD] == 450


@pytest.mark.parametrize("finished", ["move", "purge"])
def test_entries_without_a_record_do_not_stop_a_completion(new_backend, redis_url, raw, finished):
    """More than a page of them, before and between the jobs; and two jobs in two indexes."""
    backend = new_backend(redis_url, partitions=1)
    place = Keys(backend.config.prefix).partition("default", 1, 0).key
    jobs, gone = names("job", 10), names("gone", 2 * versions.BATCH + 50)
    add(backend, *jobs)
    backend.bury([Failure(lease=one, error=ErrorDetail(kind="E")) for one in lease(backend)])
    raw.zadd(place("dead"), {one: number for number, one in enumerate(gone)})
    raw.zadd(place("dead"), {"last": 1e15})
    raw.zadd(place("cancelled"), {"gone": 1, jobs[0]: 2})
    raw.zadd(place("succeeded"), {jobs[1]: 2})
    backend.promote_queue_version("default", 2, 3)
    assert backend.complete_draining_version("default", 1, finished=finished).draining == ()
    if finished == "move":
        found = backend.get("default", jobs)
        states = [(job.state, job.queue_version, len(job.errors)) for job in found.values()]
        assert states == [(JobState.DEAD, 2, 1)] * 10
        assert sum(sum(row.counts.values()) for row in backend.stats(["default"])) == 10


def test_the_store_decides_over_a_configuration_that_differs_and_says_so_once(new_backend, redis_url, caplog):
    add(new_backend(redis_url, partitions=3), "one")
    other = new_backend(redis_url, partitions=8, active_version=5)
    add(other, *names("two", 20))
    assert [version.partitions for version in other.topology("default").versions] == [3]
    other.stats()
    assert len([one for one in caplog.records if "the store decides" in one.getMessage()]) == 1


def test_a_new_queue_begins_as_configured(new_backend, redis_url):
    backend = new_backend(redis_url, partitions=5, active_version=7)
    (answer,) = add(backend, "one")
    assert answer.job.queue_version == 7
    assert backend.topology("default").active.partitions == 5


@pytest.mark.parametrize("finished", ["refuse", "purge", "move"])
def test_a_completion_cut_short_anywhere_leaves_the_version_listed_or_empty(
    new_backend, redis_url, new_proxy, finished
):
    """A crash in between: until the last step the version stays listed, hence looked into."""
    proxy = new_proxy(redis_url)
    backend, through = new_backend(redis_url, partitions=2), new_backend(proxy.url, partitions=2)
    add(backend, *names("job", 20))
    if finished == "refuse":
        complete(backend)
    else:
        backend.bury([Failure(lease=one) for one in lease(backend)])
    backend.promote_queue_version("default", 2, 3)
    tries = 0
    for number in range(40):
        through.topology("default")
        proxy.heal()
        lost = [proxy.swallow_reply(matching=b"EVAL") for _ in range(number + 1)][-1]
        tries += 1
        try:
            through.complete_draining_version("default", 1, finished=finished)
        except BackendUnavailable:
            found = backend.get("default", names("job", 20))
            listed = {one.version for one in backend.topology("default").versions}
            assert {job.queue_version for job in found.values()} <= listed
            if finished == "move":
                assert len(found) == 20
        if not lost.is_set() and [one.version for one in backend.topology("default").versions] == [2]:
            break
    proxy.heal()
    assert [one.version for one in through.complete_draining_version("default", 1, finished=finished).versions] == [2]
    assert len(backend.get("default", names("job", 20))) == (20 if finished == "move" else 0)
    assert tries > 1


def test_versions_change_while_threads_enqueue_and_work(new_backend, redis_url):
    """Guarantee 25. A small storm; the long one has processes that are killed."""
    stop = threading.Event()
    enqueued: list[list[str]] = []
    done: list[list[str]] = []
    failures: list[BaseException] = []

    def guarded(work) -> None:
        try:
            work()
        except BaseException as error:  # told by the main thread
            failures.append(error)

    def produce(number: int) -> None:
        backend = new_backend(redis_url, partitions=4, topology_interval=3_600.0)
        mine: list[str] = []
        enqueued.append(mine)
        while not stop.is_set():
            ids = names(f"{number}-{len(mine)}-", 5)
            add(backend, *ids)
            mine += ids

    def consume() -> None:
        backend = new_backend(redis_url, topology_interval=3_600.0)
        mine: list[str] = []
        done.append(mine)
        while not stop.is_set():
            mine += complete(backend)

    threads = [threading.Thread(target=guarded, args=(lambda number=number: produce(number),)) for number in range(3)]
    threads += [threading.Thread(target=guarded, args=(consume,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    admin = new_backend(redis_url, partitions=4)
    add(admin, "first")
    try:
        for version in range(2, 12):
            admin.promote_queue_version("default", version, 1 + version * 5 % 16)
            pending = {one.version for one in admin.topology("default").draining}
            while pending:
                for one in sorted(pending):
                    with suppress(TopologyError):  # it still holds jobs
                        admin.complete_draining_version("default", one)
                pending = {one.version for one in admin.topology("default").draining}
                assert not failures
    finally:
        stop.set()
        for thread in threads:
            thread.join(WAIT_TIMEOUT)
    assert not failures
    assert sorted([*chain(*done), *complete(admin)]) == sorted([*chain(*enqueued), "first"])


@pytest.mark.parametrize("meddle", ["refused", "repeated"])
def test_nobody_else_ends_the_protection_of_a_move(new_backend, redis_url, monkeypatch, meddle):
    """Else a dead job could be requeued in the old version while the move has brought it to the new one."""
    mover, other, stale = (new_backend(redis_url, partitions=1, topology_interval=3_600.0) for _ in range(3))
    add(mover, "job")
    mover.bury([Failure(lease=one) for one in lease(mover)])
    assert stale.get("default", ["job"])["job"].queue_version == 1  # it will not look again
    mover.promote_queue_version("default", 2, 1)
    import_finished = versions.import_finished
    answers = []

    def import_and_be_disturbed(store, queue, views):
        import_finished(store, queue, views)
        if meddle == "refused":
            with pytest.raises(TopologyError):
                other.complete_draining_version("default", 1)
        else:
            other.promote_queue_version("default", 2, 1)
        answers.extend(stale.requeue("default", ["job"]))

    monkeypatch.setattr(versions, "import_finished", import_and_be_disturbed)
    mover.complete_draining_version("default", 1, finished="move")
    assert [(one.moved, one.state) for one in answers] == [(False, JobState.DEAD)]
    (row,) = mover.stats(["default"])
    assert (row.version, row.counts[JobState.DEAD], row.counts[JobState.READY]) == (2, 1, 0)


def test_the_protection_ends_with_its_owner_alone(new_backend, redis_url, raw):
    """A completion that is refused ends its own, and one that died is forgotten after a while."""
    backend = new_backend(redis_url, partitions=1)
    add(backend, "live", "job")
    backend.bury([Failure(lease=one) for one in lease(backend) if one.job.id == "job"])
    backend.promote_queue_version("default", 2, 1)
    (partition,) = backend._store.layouts.of("default", fresh=True).versions[1]
    backend._store.calls.one(scripts.SEAL, partition, b"", b"dead0", 60_000)
    with pytest.raises(TopologyError):
        backend.complete_draining_version("default", 1)
    assert not backend.requeue("default", ["job"])[0].moved
    backend._store.calls.one(scripts.SEAL, partition, b"", b"dead0", 1)
    until(lambda: backend.requeue("default", ["job"])[0].moved)
