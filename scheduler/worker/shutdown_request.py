"""When a run is to end."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import NamedTuple

_SHARE = 4  # at most a quarter of the time is kept for handlers that heed their cancellation


class _Times(NamedTuple):
    """By `time.monotonic()`. The first wish to end that is reached counts."""

    end: float
    cancel: float


class ShutdownRequest:
    """
    The wishes to end a run. Without a lock, since they come from signal handlers too: they are only ever added.

    grace: seconds before the end in which handlers may heed their cancellation.
    """

    def __init__(self, grace: float, *wake: Callable[[], None]) -> None:
        self._grace = grace
        self._wake = wake
        self._requests = [_Times(math.inf, math.inf)]
        self._asked = False

    def request(self, timeout: float) -> None:
        """End within *timeout* seconds, inf = when all handlers have returned. A later wish only brings it nearer."""
        end = time.monotonic() + timeout
        self._requests.append(_Times(end, end - min(self._grace, timeout / _SHARE)))
        self._asked = True
        for wake in self._wake:
            wake()

    @property
    def asked(self) -> bool:
        """Whether the run is to end."""
        return self._asked

    @property
    def until_cancel(self) -> float:
        """Seconds until the handlers that still run are told to end; not below 0."""
        return max(0.0, min(request.cancel for request in self._requests) - time.monotonic())

    @property
    def until_end(self) -> float:
        """Seconds until everything is over; not below 0."""
        return max(0.0, min(self._requests).end - time.monotonic())
