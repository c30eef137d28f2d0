"""The conformance suite on each PostgreSQL found."""

from __future__ import annotations

from functools import partial

import pytest

from scheduler.testing.contract import BackendContract
from scheduler.testing.rig import OpenBackend
from scheduler_backends.postgres import PostgresBackend


@pytest.mark.every_flavour(further="long")
class TestPostgresBackend(BackendContract):
    examples = 8  # every step is a round trip; the long run draws more

    @pytest.fixture
    def open_backend(self, postgres_url) -> OpenBackend:
        return partial(PostgresBackend, postgres_url, schema="contract", migrate=True)
