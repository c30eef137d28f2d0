"""Rows that other programs damaged."""

from __future__ import annotations

import psycopg
import pytest

from row_damage import RowDamage, UnreadDamage


class TestRows(RowDamage, UnreadDamage):
    @pytest.fixture
    def checks(self, spoil):
        def checks(**columns):
            with pytest.raises(psycopg.errors.CheckViolation):
                spoil(strict=False, **columns)
            return True

        return checks
