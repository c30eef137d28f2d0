"""Runs the suite on the backends given by pytest's option `--scheduler-backend URL`."""

from __future__ import annotations

from dataclasses import asdict
from urllib.parse import urlencode

import pytest

from scheduler.backend import Backend
from scheduler.clock import Clock
from scheduler.plugins import backend_from_url
from scheduler.queues import Retention
from scheduler.testing.contract import BackendContract
from scheduler.testing.harness import OpenBackend


class TestBackendByUrl(BackendContract):
    @pytest.fixture
    def open_backend(self, scheduler_backend_url: str) -> OpenBackend:
        """Open the URL. The retention is added as URL parameters, which every backend accepts."""
        url = scheduler_backend_url if "://" in scheduler_backend_url else f"{scheduler_backend_url}://"

        def open_backend(*, clock: Clock | None, retention: Retention) -> Backend:  # noqa: ARG001 - the harness assigns it
            kept = urlencode({f"retain_{name}": seconds for name, seconds in asdict(retention).items()})
            return backend_from_url(f"{url}{'&' if '?' in url else '?'}{kept}")

        return open_backend
