"""Calls made during another call of the same thread, for example by a finaliser or a signal handler."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

import pytest

from scheduler.errors import BackendError
from scheduler.leases import Completion
from scheduler.testing.harness import BackendHarness

_AT_ONCE = 3.0  # seconds; shorter than any time-out of a store, so a call that waits for itself takes longer


class _Nested:
    """Makes *call* once, at the profiling event number *at* of this thread."""

    def __init__(self, call: Callable[[], object], at: int) -> None:
        self._call = call
        self._left = at
        self.done = False
        self.error: BackendError | None = None
        self.took = 0.0

    def __enter__(self) -> Self:
        sys.setprofile(self._event)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _event(self, _frame: FrameType, _event: str, _argument: Any) -> None:
        self._left -= 1
        if self._left < 0 and not self.done:
            self.done = True
            began = time.monotonic()
            try:
                self._call()
            except BackendError as error:
                self.error = error
            self.took = time.monotonic() - began


_OUTER: dict[str, Callable[[BackendHarness], object]] = {
    "enqueue": lambda harness: harness.enqueue(harness.new()),
    "lease and complete": lambda harness: harness.backend.complete([Completion(lease=harness.leased())]),
    "get": lambda harness: harness.backend.get(harness.queue, ["none"]),
    "stats": lambda harness: harness.backend.stats([harness.queue]),
}


class NestingContract:
    @pytest.mark.parametrize("outer", sorted(_OUTER))
    def test_a_nested_call_of_one_thread_succeeds_or_is_refused_without_waiting(
        self, harness: BackendHarness, outer: str
    ) -> None:
        def at(event: int) -> bool:
            wanted = harness.new(queue=other)
            with _Nested(lambda: harness.enqueue(wanted), event) as nested:
                _OUTER[outer](harness)
            assert nested.took < _AT_ONCE, "the inner call waited for the outer one"
            stored = wanted.id in harness.backend.get(other, [wanted.id])
            assert stored is (nested.done and nested.error is None)
            return nested.done

        other = harness.new_queue()

        def at_many() -> None:
            while at(passed[-1]):
                passed.append(passed[-1] + 1 + passed[-1] // 10)
            ended.set()

        passed, ended = [0], threading.Event()
        # Daemonic, so that a thread that waits for itself does not keep the test run from ending.
        threading.Thread(target=at_many, name="nested", daemon=True).start()
        assert ended.wait(100.0), "it waits for itself, or failed"
        assert len(passed) > 1
        assert harness.enqueue(harness.new())[0].is_new

    def test_a_nested_lease_and_complete_succeeds_or_is_refused_without_waiting(self, harness: BackendHarness) -> None:
        def nested() -> None:
            leases = harness.lease_once(queues=[other])
            harness.backend.complete([Completion(lease=lease) for lease in leases])

        def at_each() -> None:
            event = 0
            done = True
            while done:
                harness.add(queue=other)
                with _Nested(nested, event) as run:
                    harness.backend.complete([Completion(lease=harness.leased())])
                done = run.done
                event += 1 + event // 100
            ended.set()

        other, ended = harness.new_queue(), threading.Event()
        threading.Thread(target=at_each, name="nested", daemon=True).start()
        assert ended.wait(100.0), "it waits for itself, or failed"
