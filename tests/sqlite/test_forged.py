"""Leases that no store ever gave: refused like any other, and no reason to fail."""

from __future__ import annotations

import dataclasses

import pytest

from scheduler.identity import new_token
from scheduler.jobs import NewJob
from scheduler.leases import Completion


@pytest.mark.parametrize(
    "wrong",
    [{"id": "a\1b"}, {"id": "a\0b"}, {"id": ""}, {"id": "\ud800"}, {"id": "x" * 300}, {"queue": "\1"}, {"token": "x"}],
    ids=str,
)
def test_a_forged_lease_is_refused_and_the_others_are_taken(backend, wrong):
    backend.enqueue([NewJob(type="mail") for _ in range(3)])
    first, *others = backend.lease(["default"], token=new_token(), worker_id="w", duration=60.0, limit=3)
    token = wrong.get("token", first.token)
    job = dataclasses.replace(first.job, **{name: value for name, value in wrong.items() if name != "token"})
    forged = dataclasses.replace(first, job=job, token=token)
    assert backend.complete([Completion(lease=lease) for lease in (forged, *others)]) == [forged]
    assert backend.complete([Completion(lease=forged)]) == [forged]
    assert backend.complete([Completion(lease=first)]) == []
