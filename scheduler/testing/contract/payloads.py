"""Payloads and results are opaque bytes; error texts of any content can be recorded (guarantee 19)."""

from __future__ import annotations

import os

import pytest

from scheduler.jobs import ErrorDetail
from scheduler.leases import Completion, Failure
from scheduler.limits import MAX_ERROR_MESSAGE, MAX_ERROR_TRACEBACK, MAX_METADATA, MAX_RESULT
from scheduler.states import JobState
from scheduler.testing.harness import LONG, BackendHarness
from scheduler.testing.job_states import in_state

_PAYLOADS = {
    "empty": b"",
    "all bytes": bytes(range(256)),
    "nul": b"\0",
    "no utf-8": b"\xff\xfe\xc0\x80",
    "looks like json": b'{"a": 1}',
    "looks like a number": b"1e5",
    "line ends": b"\r\n\n\r",
    "large": os.urandom(256 * 1024),
}
_TEXTS = {
    "nul": "before\0after",
    "surrogate": "before\ud800after",
    "odd": "'; -- \\ \" % {} 日本 😀 \x1b[31m \r\n\t\x85\u2028",
    "empty": "",
    "long": "😀" * 20_000,
}


class PayloadsContract:
    @pytest.mark.parametrize("state", list(JobState))
    @pytest.mark.parametrize("kind", sorted(_PAYLOADS))
    def test_a_payload_is_the_same_bytes_in_every_state(
        self, harness: BackendHarness, kind: str, state: JobState
    ) -> None:
        job, lease = in_state(harness, state, payload=_PAYLOADS[kind])
        assert lease.job.payload == job.payload == _PAYLOADS[kind]
        assert [each.payload for each in harness.listed(state)] == [_PAYLOADS[kind]]

    def test_a_payload_survives_failure_recovery_burial_and_requeue(self, harness: BackendHarness) -> None:
        payload = bytes(range(256))
        lease = harness.leased(payload=payload, max_retries=1)
        harness.backend.retry([Failure(lease=lease, delay=harness.span)])
        harness.advance(harness.span)
        harness.lease_one(duration=harness.span)
        harness.advance(1.1 * harness.span)
        assert harness.recover() == (0, 1)
        harness.backend.requeue(harness.queue, [lease.job.id])
        assert harness.lease_one().job.payload == payload

    @pytest.mark.parametrize("kind", sorted(_PAYLOADS))
    def test_a_result_is_the_same_bytes(self, harness: BackendHarness, kind: str) -> None:
        lease = harness.leased()
        assert not harness.backend.complete([Completion(lease=lease, result=_PAYLOADS[kind][:MAX_RESULT])])
        assert harness.job(lease.job.id).result == _PAYLOADS[kind]

    @pytest.mark.parametrize("bury", [False, True], ids=["retry", "bury"])
    @pytest.mark.parametrize("kind", sorted(_TEXTS))
    def test_any_error_text_is_recorded(self, harness: BackendHarness, kind: str, *, bury: bool) -> None:
        text = _TEXTS[kind]
        lease = harness.leased()
        detail = ErrorDetail(kind=text or "Error", message=text, traceback=text)
        failure = Failure(lease=lease, delay=LONG, error=detail)
        assert not (harness.backend.bury if bury else harness.backend.retry)([failure])
        error = harness.job(lease.job.id).last_error
        assert error is not None
        assert (error.kind, error.message, error.traceback) == (detail.kind, detail.message, detail.traceback)

    def test_ten_errors_of_the_largest_size_are_kept(self, harness: BackendHarness) -> None:
        job = harness.add()
        for number in range(10):
            text = chr(0x1F600 + number)
            detail = ErrorDetail(kind="E", message=text * MAX_ERROR_MESSAGE, traceback=text * MAX_ERROR_TRACEBACK)
            harness.backend.retry([Failure(lease=harness.lease_one(), error=detail)])
        errors = harness.job(job.id).errors
        assert [error.message[:1] for error in errors] == [chr(0x1F600 + number) for number in range(10)]
        assert {(len(error.message), len(error.traceback)) for error in errors} == {
            (MAX_ERROR_MESSAGE, MAX_ERROR_TRACEBACK)
        }

    def test_metadata_up_to_its_limit_is_kept(self, harness: BackendHarness) -> None:
        metadata = {"k": "v" * (MAX_METADATA - 1)}
        job = harness.add(metadata=metadata)
        assert dict(harness.lease_one().job.metadata) == dict(harness.job(job.id).metadata) == metadata
