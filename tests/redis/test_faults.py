"""Lost answers; connections cut, silent, refused; restarts, lost scripts, full memory, a replica: no job is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from redis import Connection

from scheduler.errors import BackendClosed, BackendError, BackendUnavailable
from scheduler.identity import new_token
from scheduler.jobs import ErrorDetail, NewJob
from scheduler.leases import Completion, Failure, Lease
from scheduler.queues import Retention
from scheduler.states import JobState
from scheduler_backends.redis import RedisBackend, scripts
from scheduler_backends.redis.client import node
from wait_timeout import BOUND, WAIT_TIMEOUT, until

FAILURE = ErrorDetail(kind="ValueError", message="once")


def jobs(count: int, **fields: object) -> list[NewJob]:
    return [NewJob(type="t", id=f"job{number}", **fields) for number in range(count)]


def lease(backend: RedisBackend, token: str | None = None, limit: int = 100, duration: float = 600.0) -> list[Lease]:
    made = token or new_token()
    return list(backend.lease(["default"], token=made, worker_id="w", duration=duration, limit=limit))


def twice(call: Callable[[], object]) -> object:
    """The answer of a call whose first answer was lost."""
    with pytest.raises(BackendUnavailable):
        call()
    return call()


class Lossy:
    """A backend behind a proxy, one with a good connection, and a way to lose the next answer."""

    def __init__(self, proxy, through: RedisBackend, direct: RedisBackend) -> None:
        self.proxy = proxy
        self.through = through
        self.direct = direct

    def lose_the_next_answer(self) -> threading.Event:
        self.through.ping()  # connected, and the layouts read, so that it is the move's answer that is lost
        self.through.stats(["default"])
        return self.proxy.swallow_reply(matching=b"EVAL")


@pytest.fixture(params=[1, 8], ids=["one partition", "eight partitions"])
def lossy(request, redis_url, new_backend, new_proxy, raw) -> Lossy:
    proxy, partitions = new_proxy(redis_url), request.param
    found = Lossy(proxy, *(new_backend(url, partitions=partitions) for url in (proxy.url, redis_url)))
    # Gates are open and scripts loaded: the answer that is lost is that of the move, not a "no such script".
    found.direct.enqueue([NewJob(type="t", id=f"first{number}") for number in range(50)])
    found.direct.purge("default", JobState.READY, 50)
    for script in vars(scripts).values():
        if isinstance(script, scripts.Script):
            raw.script_load(script.text)
    return found


def counts(backend: RedisBackend) -> dict[JobState, int]:
    return {state: count for state, count in backend.stats(["default"])[0].counts.items() if count}


# A lost answer. "Before" is the proxy cutting within the request, "after" is it swallowing the answer.


def test_an_enqueue_whose_answer_was_lost_stores_once(lossy):
    """Guarantee 7, as do those below, for every move."""
    new = jobs(50)
    lossy.lose_the_next_answer()
    answers = twice(lambda: lossy.through.enqueue(new))
    assert all(answer.is_new for answer in answers)
    assert counts(lossy.direct) == {JobState.READY: 50}


def test_a_lease_whose_answer_was_lost_leases_once(lossy):
    lossy.direct.enqueue(jobs(50))
    token = new_token()
    lossy.lose_the_next_answer()
    leases = twice(lambda: lease(lossy.through, token))
    assert len({one.job.id for one in leases}) == len(leases)
    rest = lease(lossy.through)
    assert len(leases) + len(rest) == 50
    assert {one.job.attempts for one in (*leases, *rest)} == {1}


def test_a_repeated_lease_stays_within_its_limit(lossy):
    lossy.direct.enqueue(jobs(50))
    for _ in range(5):
        token = new_token()
        lossy.lose_the_next_answer()
        assert len(twice(lambda token=token: lease(lossy.through, token, limit=3))) <= 3
    held = counts(lossy.direct)[JobState.LEASED]
    assert held <= 15


@pytest.mark.parametrize("move", ["complete", "retry", "bury", "release"])
def test_a_settlement_whose_answer_was_lost_takes_effect_once(lossy, move):
    lossy.direct.enqueue(jobs(20))
    held = lease(lossy.direct)
    calls = {
        "complete": lambda: lossy.through.complete([Completion(lease=one) for one in held]),
        "retry": lambda: lossy.through.retry([Failure(lease=one, delay=600.0, error=FAILURE) for one in held]),
        "bury": lambda: lossy.through.bury([Failure(lease=one, error=FAILURE) for one in held]),
        "release": lambda: lossy.through.release(held),
    }
    lossy.lose_the_next_answer()
    refused = twice(calls[move])
    assert refused  # the answer to a repeat: what the first try had settled is not held any more
    after = {"retry": JobState.RETRY_WAIT, "bury": JobState.DEAD, "release": JobState.READY}
    assert counts(lossy.direct) == ({after[move]: 20} if move in after else {})
    for job in lossy.direct.get("default", [one.job.id for one in held]).values():
        assert job.attempts == (0 if move == "release" else 1)
        assert len(job.errors) == (0 if move == "release" else 1)


def test_a_promotion_and_a_recovery_whose_answers_were_lost_take_effect_once(lossy):
    lossy.direct.enqueue(jobs(20, delay=0.001))
    time.sleep(0.01)  # all are due by then, by a clock that we do not hold
    lossy.lose_the_next_answer()
    twice(lambda: lossy.through.promote_due(["default"], 1_000))
    until(lambda: lossy.direct.promote_due(["default"], 1_000).next_due is None)
    assert counts(lossy.direct) == {JobState.READY: 20}
    held = lease(lossy.direct, duration=0.001)
    time.sleep(0.01)
    lossy.lose_the_next_answer()
    twice(lambda: lossy.through.recover_expired(["default"], 1_000))
    until(lambda: lossy.direct.recover_expired(["default"], 1_000).next_expiry is None)
    assert counts(lossy.direct) == {JobState.READY: 20}
    assert {job.crashes for job in lossy.direct.get("default", [one.job.id for one in held]).values()} == {1}


def test_an_enqueue_cut_off_within_its_request_stores_nothing_twice(lossy):
    new = jobs(50, payload=b"x" * 1_000)
    lossy.through.stats(["default"])
    for size in (1, 100, 5_000, 30_000):
        lossy.proxy.cut_after(size, matching=b"EVALSHA")
        with pytest.raises(BackendUnavailable):
            lossy.through.enqueue(new)
    assert all(answer.is_new for answer in lossy.through.enqueue(new))
    assert counts(lossy.direct) == {JobState.READY: 50}


# Scripts gone


@pytest.mark.every_flavour
def test_a_flushed_script_cache_goes_unnoticed(new_backend, redis_url, raw):
    """Guarantee 21."""
    backend = new_backend(redis_url)
    for turn in range(20):
        backend.enqueue(jobs(64))
        raw.script_flush()
        held = lease(backend)
        if turn % 2:
            raw.script_flush()
        assert backend.complete([Completion(lease=one) for one in held]) == []
        while held := lease(backend):
            assert backend.complete([Completion(lease=one) for one in held]) == []
    assert counts(backend) == {}


def test_a_flush_in_the_middle_of_a_group_of_calls_goes_unnoticed(new_backend, redis_url, raw):
    """Guarantee 21: another client flushes all the time, while calls of eight scripts each are under way."""
    backend = new_backend(redis_url)
    stop = threading.Event()

    def flush() -> None:
        while not stop.is_set():
            raw.script_flush()

    thread = threading.Thread(target=flush)
    thread.start()
    done: list[str] = []
    try:
        for turn in range(30):
            backend.enqueue([NewJob(type="t", id=f"{turn}-{number}") for number in range(32)])
            while held := lease(backend):
                assert backend.complete([Completion(lease=one) for one in held]) == []
                done += [one.job.id for one in held]
    finally:
        stop.set()
        thread.join(WAIT_TIMEOUT)
    assert len(done) == len(set(done)) == 30 * 32


# Servers and connections that go away


def test_a_backend_works_again_after_its_server_was_killed(new_redis_server, new_backend):
    """Guarantee 22."""
    server = new_redis_server(persistence="always")
    backend = new_backend(server.url)
    backend.enqueue(jobs(20))
    held = lease(backend, limit=10)
    server.kill()
    with pytest.raises(BackendUnavailable):
        backend.ping()
    with pytest.raises(BackendUnavailable):
        backend.enqueue(jobs(1))
    server.start()
    until(lambda: answers(backend))
    assert backend.complete([Completion(lease=one) for one in held]) == []
    assert counts(backend) == {JobState.READY: 20 - len(held)}


def answers(backend: RedisBackend) -> bool:
    try:
        backend.ping()
    except BackendUnavailable:
        return False
    return True


def test_connections_that_were_closed_while_idle_are_replaced_without_an_error(backend, raw, monkeypatch):
    """A firewall, a restart or CLIENT KILL between two calls: nothing was sent, so nothing need fail."""
    monkeypatch.setattr(node, "LOOK_AFTER", 0.0)
    backend.enqueue(jobs(3))
    for _ in range(3):
        raw.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        assert answers(backend)
        assert counts(backend) == {JobState.READY: 3}


def test_hiredis_packs_bytes_only(backend, monkeypatch):
    """It crashes if a signal handler raises while it converts an int."""
    kinds = set()

    def pack(words: tuple[object, ...]) -> bytes:
        kinds.update(map(type, words))
        return b"".join(Connection().pack_command(*words))

    monkeypatch.setattr(node, "_pack", pack)
    backend.enqueue(jobs(2))
    first, second = lease(backend)
    backend.retry([Failure(lease=first, error=FAILURE, delay=0.0)])
    assert backend.complete([Completion(lease=second)]) == []
    assert counts(backend) == {JobState.READY: 1}
    assert kinds == {bytes}


def test_a_black_hole_ends_in_an_error_in_time_and_another_connection_serves(new_backend, redis_url, new_proxy):
    """Guarantees 29 and 30."""
    proxy = new_proxy(redis_url)
    backend = new_backend(proxy.url, timeout=0.3)
    backend.enqueue(jobs(1))
    proxy.black_hole()
    for call in (backend.ping, lambda: backend.enqueue(jobs(2)), lambda: lease(backend), backend.stats):
        started = time.monotonic()
        with pytest.raises(BackendUnavailable, match="in time"):
            call()
        assert time.monotonic() - started < BOUND
    proxy.heal()
    until(lambda: answers(backend))
    backend.enqueue(jobs(2))
    assert counts(backend) == {JobState.READY: 2}


def test_an_answer_that_comes_too_late_is_not_taken_for_another_s(new_backend, redis_url, new_proxy):
    proxy = new_proxy(redis_url)
    backend = new_backend(proxy.url, timeout=0.2, partitions=1)
    backend.enqueue(jobs(3))
    proxy.black_hole()
    with pytest.raises(BackendUnavailable):
        backend.list("default", JobState.READY)
    proxy.heal()
    assert counts(backend) == {JobState.READY: 3}
    assert set(backend.get("default", ["job1"])) == {"job1"}


def test_a_server_that_is_down_is_refused_at_once_and_used_again_when_it_is_up(new_backend, redis_url, new_proxy):
    proxy = new_proxy(redis_url)
    proxy.refuse()
    backend = new_backend(proxy.url)
    started = time.monotonic()
    with pytest.raises(BackendUnavailable):
        backend.enqueue(jobs(1))
    assert time.monotonic() - started < BOUND
    proxy.accept()
    assert backend.enqueue(jobs(1))[0].is_new


def test_a_frozen_server_blocks_nobody_for_ever(new_redis_server, new_backend):
    server = new_redis_server()
    backend = new_backend(server.url, timeout=0.3)
    backend.ping()
    server.freeze()
    try:
        started = time.monotonic()
        with pytest.raises(BackendUnavailable):
            backend.enqueue(jobs(1))
        assert time.monotonic() - started < BOUND
    finally:
        server.thaw()
    until(lambda: answers(backend))


# Refusals


@pytest.mark.every_flavour
def test_full_memory_refuses_new_jobs_clearly_and_lets_work_be_finished(new_redis_server, new_backend):
    server = new_redis_server(persistence="none", config={"maxmemory-policy": "noeviction"})
    backend = new_backend(server.url, partitions=2)
    backend.enqueue(jobs(40, payload=b"x" * 1_000))
    held = lease(backend, limit=10)
    server.command("CONFIG", "SET", "maxmemory", "1mb")
    with pytest.raises(BackendError, match="memory is full") as refusal:
        backend.enqueue([NewJob(type="t", id="refused")])
    assert isinstance(refusal.value, BackendUnavailable)  # it may pass
    assert not backend.get("default", ["refused"])
    thirds = held[0::3], held[1::3], held[2::3]
    assert backend.renew(held, 600.0).refused == []
    assert backend.complete([Completion(lease=one) for one in thirds[0]]) == []
    assert backend.retry([Failure(lease=one, delay=600.0, error=FAILURE) for one in thirds[1]]) == []
    assert backend.bury([Failure(lease=one, error=FAILURE) for one in thirds[2]]) == []
    while more := lease(backend):  # the backlog can be worked off, which is what frees memory
        assert backend.complete([Completion(lease=one) for one in more]) == []
    server.command("CONFIG", "SET", "maxmemory", "0")
    assert backend.enqueue([NewJob(type="t", id="refused")])[0].is_new


def test_a_replica_takes_no_jobs_and_its_connections_are_dropped(new_redis_server, new_backend):
    server = new_redis_server(persistence="none")
    backend = new_backend(server.url)
    backend.enqueue(jobs(5))
    server.command("REPLICAOF", "127.0.0.1", 1)
    with pytest.raises(BackendUnavailable):
        backend.enqueue([NewJob(type="t")])
    with pytest.raises(BackendUnavailable):
        lease(backend)
    server.command("REPLICAOF", "NO", "ONE")
    assert backend.enqueue([NewJob(type="t")])[0].is_new


def test_a_wrong_password_is_said_and_not_shown(new_redis_server, new_backend):
    server = new_redis_server(persistence="none")
    server.command("CONFIG", "SET", "requirepass", "right")
    backend = new_backend(server.url.replace("redis://", "redis://:wrong@"))
    with pytest.raises(BackendError) as refusal:
        backend.ping()
    assert not isinstance(refusal.value, BackendUnavailable)  # it does not pass by itself
    assert "wrong" not in str(refusal.value)
    new_backend(server.url.replace("redis://", "redis://:right@")).ping()


def test_a_user_without_the_channel_still_enqueues(new_redis_server, new_backend):
    server = new_redis_server(persistence="none")
    server.command("ACL", "SETUSER", "ann", "on", ">secret", "~*", "resetchannels", "+@all")
    backend = new_backend(server.url.replace("redis://", "redis://ann:secret@"))
    assert all(answer.is_new for answer in backend.enqueue(jobs(5)))
    assert len(lease(backend)) == 5


def rights_of_the_page() -> list[str]:
    """What docs/stores/redis.md gives to a user, without the command itself."""
    page = Path(__file__).parents[2] / "docs" / "stores" / "redis.md"
    words = page.read_text("utf-8").partition("ACL SETUSER worker ")[2].partition("```")[0].split()
    assert "+evalsha" in words
    return words


def test_the_rights_that_the_documentation_names_are_enough_and_end_at_the_prefix(
    new_redis_server, new_backend, caplog
):
    server = new_redis_server(persistence="none")
    server.command("ACL", "SETUSER", "worker", *rights_of_the_page())
    as_worker = server.url.replace("redis://", "redis://worker:secret@")
    backend = new_backend(as_worker, prefix="shop", retention=Retention(succeeded=60.0))
    waiter = backend.waiter(["default"])
    until(lambda: not waiter.wait(0.05))
    backend.enqueue(jobs(20))
    backend.enqueue([NewJob(type="t", delay=600.0)])
    until(lambda: waiter.wait(1.0))
    waiter.close()
    held = lease(backend)
    backend.renew(held[1:], 60.0)
    backend.renew(held, 60.0)
    backend.retry([Failure(lease=one, error=FAILURE) for one in held[:5]])
    backend.release(held[5:7])
    backend.bury([Failure(lease=one, error=FAILURE) for one in held[7:9]])
    assert backend.complete([Completion(lease=one) for one in held[9:]]) == []
    again = backend.lease(["default"], token=new_token(), worker_id="w", duration=0.01, limit=1)
    until(lambda: backend.recover_expired(["default"], 100).ready or not again)
    for state in JobState:
        backend.list("default", state)
    backend.pause("default")
    backend.resume("default")
    backend.promote_due(["default"], 100)
    backend.trim(["default"], 100)
    backend.promote_queue_version("default", 2, 4)
    backend.requeue("default", [held[7].job.id])
    backend.cancel("default", list(backend.get("default", [one.job.id for one in held])))
    for state in (JobState.READY, JobState.SCHEDULED, JobState.RETRY_WAIT):
        backend.purge("default", state, 100)
    backend.complete_draining_version("default", 1, finished="move")
    assert [row.version for row in backend.stats()] == [2]
    assert not caplog.records
    with pytest.raises(BackendError, match="refuses"):
        new_backend(as_worker, prefix="shop2").enqueue(jobs(1))
    with pytest.raises(BackendError, match="refuses"):
        new_backend(as_worker, prefix="shop2").stats()


def test_a_connection_that_fails_while_it_is_set_up_is_closed(new_backend, redis_url, monkeypatch):
    backend = new_backend(redis_url)
    opened = []

    def fail(connected):
        opened.append(connected)
        raise OSError("no more of these")

    with monkeypatch.context() as patched:
        patched.setattr(node, "_wait_in_kernel", fail)
        with pytest.raises(BackendUnavailable):
            backend.ping()
    assert [one.fileno() for one in opened] == [-1]
    backend.ping()


def test_an_eviction_policy_that_cannot_be_read_is_told(new_redis_server, new_backend, caplog):
    server = new_redis_server(persistence="none")
    rights = [word for word in rights_of_the_page() if word != "+config|get"]
    server.command("ACL", "SETUSER", "worker", *rights)
    new_backend(server.url.replace("redis://", "redis://worker:secret@"), prefix="shop").ping()
    (told,) = [record.getMessage() for record in caplog.records]
    assert "maxmemory-policy is noeviction" in told
    assert "+config|get" in told


def test_a_store_that_may_throw_jobs_away_is_warned_of_once(new_redis_server, new_backend, caplog):
    server = new_redis_server(persistence="none", config={"maxmemory-policy": "allkeys-lru"})
    backend = new_backend(server.url)
    backend.enqueue(jobs(5))
    backend.stats()
    (told,) = [record.getMessage() for record in caplog.records if "maxmemory-policy" in record.getMessage()]
    assert "allkeys-lru" in told


def test_closing_lets_go_of_every_connection(new_redis_server, new_backend):
    server = new_redis_server(persistence="none")
    backend = new_backend(server.url)
    threads = [threading.Thread(target=backend.ping) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_TIMEOUT)
    waiter = backend.waiter(["default"])
    waiter.wait(0.01)
    backend.close()
    backend.close()
    until(lambda: server.info("clients")["connected_clients"] == "1")  # ours that asks
    with pytest.raises(BackendClosed):
        backend.ping()
