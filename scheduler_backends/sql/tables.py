"""
SQLAlchemy tables, for your own queries and Alembic migrations.

They describe the newest version of the schema. Each store creates it with its own steps; a test compares the results
with these tables. Apart from this module, only the Postgres store needs SQLAlchemy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from scheduler_backends.sql.columns import TABLES

_TYPES: Final[Mapping[str, sa.types.TypeEngine[Any]]] = {
    "text": sa.Text(),
    "uuid": sa.Text().with_variant(sa.Uuid(as_uuid=False), "postgresql"),
    "jsonb": sa.JSON().with_variant(JSONB(), "postgresql"),
    "smallint": sa.SmallInteger(),
    "integer": sa.Integer(),
    "bigint": sa.BigInteger(),
    "double precision": sa.Double(),
    "boolean": sa.Boolean(),
    "bytea": sa.LargeBinary(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """All tables of a store. Moments are microseconds since 1970 (see `moments`), states are codes (see `states`)."""

    schema_version: sa.Table
    job: sa.Table
    queue: sa.Table
    bucket: sa.Table
    schedule: sa.Table
    worker: sa.Table
    fence: sa.Table
    done: sa.Table


def tables(*, schema: str | None, prefix: str) -> Tables:
    """Return the tables in *schema* (None = the connection's default) whose names begin with *prefix*."""
    metadata = sa.MetaData(schema=schema)
    return Tables(
        **{
            table: sa.Table(
                f"{prefix}{table}",
                metadata,
                *(
                    sa.Column(name, _TYPES[column.type], nullable=column.null, autoincrement=False)
                    for name, column in columns.items()
                ),
                sa.PrimaryKeyConstraint(*(name for name, column in columns.items() if column.key)),
            )
            for table, columns in TABLES.items()
        }
    )
