"""Rows that other programs damaged."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.rows import dict_row

from row_damage import RowDamage

_DOCUMENTS = ("retry_policy", "metadata", "errors")


@pytest.fixture
def spoil(postgres_url, schema):
    def spoil(*, all_jobs=False, strict=True, **columns):
        with psycopg.connect(postgres_url, autocommit=True) as other:
            if strict:
                checks = (
                    f"SELECT conname FROM pg_constraint WHERE conrelid = '{schema}.job'::regclass AND contype = 'c'"
                )
                for (name,) in other.execute(checks).fetchall():
                    other.execute(f"ALTER TABLE {schema}.job DROP CONSTRAINT {name}")
            where = "id LIKE 'bad%%'" if all_jobs else "id = 'bad'"
            values = ", ".join(f"{name} = %s{'::jsonb' * (name in _DOCUMENTS)}" for name in columns)
            assert other.execute(f"UPDATE {schema}.job SET {values} WHERE {where}", (*columns.values(),)).rowcount

    return spoil


class TestRows(RowDamage):
    @pytest.fixture
    def spoil(self, spoil):
        return spoil

    @pytest.fixture
    def row(self, postgres_url, schema):
        def row():
            with psycopg.connect(postgres_url, row_factory=dict_row) as other:
                return other.execute(f"SELECT * FROM {schema}.job WHERE id = 'bad'").fetchone()

        return row

    @pytest.fixture
    def checks(self, spoil):
        def checks(**columns):
            with pytest.raises(psycopg.errors.CheckViolation):
                spoil(strict=False, **columns)
            return True

        return checks
