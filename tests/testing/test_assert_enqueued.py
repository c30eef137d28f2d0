"""Tests of `assert_enqueued`."""

from __future__ import annotations

import pytest

from scheduler import JsonSerializer, NewJob, Priority, Producer
from scheduler.errors import ConfigError
from scheduler.identity import new_token
from scheduler.leases import Completion
from scheduler.testing import assert_enqueued
from scheduler_backends.memory import MemoryBackend


@pytest.fixture
def backend() -> MemoryBackend:
    return MemoryBackend()


def test_it_answers_the_jobs_that_it_found(backend) -> None:
    job = Producer(backend).enqueue("email.send", {"to": "ada"}, priority=Priority.HIGH, queue="mail").job
    Producer(backend).enqueue("email.send", {"to": "bob"}, queue="mail", delay=60.0)
    assert assert_enqueued(backend, "email.send", {"to": "ada"}, queue="mail") == [job]
    assert_enqueued(backend, "email.send", b'{"to":"ada"}', queue="mail", priority=Priority.HIGH, id=job.id, count=1)
    assert len(assert_enqueued(backend, "email.send", queue="mail", count=2)) == 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "email.sent"},
        {"payload": {"to": "bob"}},
        {"payload": b"{}"},
        {"payload": None},
        {"queue": "other"},
        {"priority": Priority.LOW},
        {"count": 0},
        {"count": 2},
    ],
    ids=str,
)
def test_what_differs_in_anything_is_not_found_and_what_is_there_is_told(backend, wrong) -> None:
    Producer(backend).enqueue("email.send", {"to": "ada"})
    with pytest.raises(AssertionError) as failure:
        assert_enqueued(**{"backend": backend, "type": "email.send", **wrong})
    if "queue" not in wrong:
        assert "email.send" in str(failure.value)
        assert "ada" in str(failure.value)


def test_none_can_be_asserted_too(backend) -> None:
    assert assert_enqueued(backend, "email.send", count=0) == []


def test_jobs_that_finished_do_not_count(backend) -> None:
    backend.enqueue([NewJob(type="a")])
    leases = backend.lease(["default"], token=new_token(), worker_id="w", duration=9.0, limit=1)
    assert_enqueued(backend, "a")
    backend.complete([Completion(lease=lease) for lease in leases])
    assert_enqueued(backend, "a", count=0)


def test_a_payload_that_cannot_be_decoded_is_another_one(backend) -> None:
    backend.enqueue([NewJob(type="a", payload=b"\xff"), NewJob(type="a", payload=b"1")])
    assert_enqueued(backend, "a", 1, count=1)


def test_many_jobs_are_looked_through(backend) -> None:
    backend.enqueue([NewJob(type="a", payload=b"%d" % number) for number in range(2_500)])
    assert_enqueued(backend, "a", count=2_500)
    assert_enqueued(backend, "a", 2_499, count=1)
    with pytest.raises(AssertionError) as failure:
        assert_enqueued(backend, "b")
    assert len(str(failure.value)) < 3_000


def test_a_field_that_no_job_has_is_a_mistake_of_the_test(backend) -> None:
    with pytest.raises(TypeError):
        assert_enqueued(backend, "a", colour=1)


@pytest.mark.parametrize("serializer", [5, "json", 0, JsonSerializer], ids=str)
def test_a_serializer_that_is_none_is_refused(backend, serializer) -> None:
    backend.enqueue([NewJob(type="a", payload=b"{}")])
    with pytest.raises(ConfigError) as refusal:
        assert_enqueued(backend, "a", {}, serializer=serializer)
    assert refusal.value.field == "serializer"
