"""Several workers in one process, on one store and on two, and what handlers leave behind on a store of their own."""

from __future__ import annotations

from collections import Counter

import pytest

from production.conftest import STORES
from programs import wait_until
from scheduler import NewJob, Producer, Worker, WorkerConfig, backend_from_url, current_job
from scheduler.abilities import TransactionalEnqueue


def worker_on(backend, queue, runs):
    worker = Worker(backend, WorkerConfig(queues=[queue], concurrency=2, poll_interval=0.1))

    @worker.handler("work")
    def work(job, ctx):
        assert current_job() == job
        runs[queue, job.id] += 1

    return worker


def test_two_workers_on_one_backend_object_are_two_workers(place):
    runs: Counter[tuple[str, str]] = Counter()
    first, second = (worker_on(place.backend, queue, runs) for queue in ("first", "second"))
    with first, second:
        for queue in ("first", "second"):
            for _ in range(20):
                place.add("work", queue=queue)
        wait_until(lambda: len(runs) == 40)
        assert first.stop()
        assert not first.running
        assert second.running
        place.add("work", queue="first")
        place.add("work", queue="second")
        wait_until(lambda: len(runs) == 41)
        with first:
            wait_until(lambda: len(runs) == 42)
    assert Counter(queue for queue, _ in runs) == {"first": 21, "second": 21}
    assert set(runs.values()) == {1}


def test_two_workers_on_two_stores_know_nothing_of_each_other(place, file_place, new_crew):
    crews = [
        new_crew(place.url),
        new_crew(f"{file_place.url}&prefix=other_"),
        new_crew("memory://?retain_succeeded=60"),
    ]
    ids = []
    for crew in crews:
        crew.go.set()
        crew.worker.start()
        ids.append([Producer(crew.backend).enqueue("work").job.id for _ in range(10)])
    for crew, mine in zip(crews, ids, strict=True):
        wait_until(lambda crew=crew, mine=mine: crew.runs == dict.fromkeys(mine, 1))
    crews[0].close()
    assert not crews[0].worker.running
    for crew in crews[1:]:
        Producer(crew.backend).enqueue("work")
        wait_until(lambda crew=crew: len(crew.runs) == 11)


@pytest.mark.integration
def test_a_transaction_that_a_handler_leaves_open_holds_up_nobody(request):
    """On PostgreSQL; on SQLite it locks the file, which is waited for. What it enqueued was never acknowledged."""
    psycopg = pytest.importorskip("psycopg")
    url = STORES["postgres"](request)
    backend = backend_from_url(url)
    assert isinstance(backend, TransactionalEnqueue)
    worker = worker_on(backend, "default", runs := Counter())
    left = []

    @worker.handler("leave open")
    def leave_open(job, ctx):
        connection = psycopg.connect(url.partition("?")[0])
        left.append(connection)
        backend.enqueue_with(connection, [NewJob(type="work", id="in it")])

    producer = Producer(backend)
    with worker:
        producer.enqueue("leave open")
        wait_until(lambda: left)
        for _ in range(20):
            producer.enqueue("work")
        wait_until(lambda: len(runs) == 20)
        assert "in it" not in backend.get("default", ["in it"])
        for connection in left:
            connection.close()
        assert producer.enqueue("work", id="in it").is_new
        wait_until(lambda: runs["default", "in it"] == 1)
    backend.close()
