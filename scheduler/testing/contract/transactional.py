"""The ability TransactionalEnqueue, as far as it can be tested without a connection."""

from __future__ import annotations

import pytest

from scheduler.abilities import TransactionalEnqueue
from scheduler.errors import ConfigError
from scheduler.testing.contract.offered import needs
from scheduler.testing.harness import BackendHarness


@needs(TransactionalEnqueue)
class TransactionalContract:
    @pytest.mark.parametrize("connection", [None, "postgresql://", 1, object], ids=repr)
    def test_enqueue_with_anything_but_a_connection_is_refused_and_stores_nothing(
        self, harness: BackendHarness, connection: object
    ) -> None:
        if not isinstance(harness.backend, TransactionalEnqueue):
            pytest.skip(f"{type(harness.backend).__name__} does not offer TransactionalEnqueue")
        with pytest.raises(ConfigError) as refusal:
            harness.backend.enqueue_with(connection, [harness.new()])
        assert refusal.value.field == "connection"
        assert not any(harness.counts().values())
