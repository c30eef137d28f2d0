"""The tables in the file are those that `sql.tables` tells SQLAlchemy of."""

from __future__ import annotations

import dataclasses

import sqlalchemy as sa

from scheduler_backends.sql.tables import tables


def test_the_tables_are_as_sqlalchemy_is_told(backend, path):
    backend.migrate()
    engine = sa.create_engine(f"sqlite:///{path}")
    try:
        told = tables(schema=None, prefix="scheduler_")
        for table in [getattr(told, field.name) for field in dataclasses.fields(told)]:
            columns = {column["name"]: column for column in sa.inspect(engine).get_columns(table.name)}
            assert set(columns) == set(table.columns.keys())
            for column in table.columns:
                assert columns[column.name]["nullable"] == bool(column.nullable), column
            key = sa.inspect(engine).get_pk_constraint(table.name)["constrained_columns"]
            assert key == [column.name for column in table.primary_key]
    finally:
        engine.dispose()
