"""Rows that other programs damaged."""

from __future__ import annotations

import psycopg
import pytest

from row_damage import RowDamage, UnreadDamage
from scheduler.errors import ConfigError
from scheduler.queues import cursor_of
from scheduler.states import JobState
from scheduler_backends.sql.cursors import write_place


class TestRows(RowDamage, UnreadDamage):
    @pytest.fixture
    def checks(self, spoil):
        def checks(**columns):
            with pytest.raises(psycopg.errors.CheckViolation):
                spoil(strict=False, **columns)
            return True

        return checks


@pytest.mark.parametrize("token", ["-" * 32, "f" * 36, "f" * 33, "0123-" + "f" * 28])
def test_a_cursor_with_a_changed_token_is_refused(backend, token):
    """The server would refuse it as well, but as an error of the store."""
    for possible in ("f" * 32, "00000000-0000-0000-0000-000000000000"):
        assert backend.list("default", JobState.LEASED, cursor=leased_place(possible)).jobs == ()
    with pytest.raises(ConfigError):
        backend.list("default", JobState.LEASED, cursor=leased_place(token))


def leased_place(token):
    return cursor_of("default", JobState.LEASED, write_place((0, token, "id")))
