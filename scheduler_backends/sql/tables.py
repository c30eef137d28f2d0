"""
The tables for SQLAlchemy: for queries and Alembic migrations of your own.

They show the newest version of the schema; the steps that make it belong to each store. A test compares both stores
with them. Apart from this module, only the Postgres store needs SQLAlchemy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from scheduler_backends.sql.columns import COLUMNS

_TYPES: Final[Mapping[str, sa.types.TypeEngine[Any]]] = {
    "text": sa.Text(),
    "uuid": sa.Text().with_variant(sa.Uuid(as_uuid=False), "postgresql"),
    "jsonb": sa.JSON().with_variant(JSONB(), "postgresql"),
    "smallint": sa.SmallInteger(),
    "integer": sa.Integer(),
    "bigint": sa.BigInteger(),
    "double precision": sa.Double(),
    "bytea": sa.LargeBinary(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """Moments are microseconds since 1970 (`moments`), states are the numbers of `states`."""

    job: sa.Table
    queue: sa.Table
    schema_version: sa.Table


def tables(*, schema: str | None, prefix: str) -> Tables:
    """Return the tables of *schema* (None = the connection's own) whose names begin with *prefix*."""
    metadata = sa.MetaData(schema=schema)
    job = sa.Table(
        f"{prefix}job",
        metadata,
        *(sa.Column(name, _TYPES[column.type], nullable=column.null) for name, column in COLUMNS.items()),
        sa.PrimaryKeyConstraint(*(name for name, column in COLUMNS.items() if column.key)),
    )
    queue = sa.Table(
        f"{prefix}queue",
        metadata,
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("paused", sa.Boolean, nullable=False),
    )
    version = sa.Table(
        f"{prefix}schema_version",
        metadata,
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("applied_at", sa.BigInteger, nullable=False),
    )
    return Tables(job=job, queue=queue, schema_version=version)
