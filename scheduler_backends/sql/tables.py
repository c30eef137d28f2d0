"""
The tables as SQLAlchemy knows them: Postgres' statements are built on these, and so may be reports of your own.

They say how the newest version of the schema looks; the steps that make it are each store's own. A test holds both
stores to it. This is the one room here that needs SQLAlchemy.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    Uuid,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import JSON

_DOCUMENT = JSON().with_variant(JSONB(), "postgresql")
_TOKEN = Text().with_variant(Uuid(as_uuid=False), "postgresql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """Moments are microseconds since 1970 (`rows`), states are the numbers of `states`."""

    job: Table
    queue: Table
    schema_version: Table


def tables(*, schema: str | None, prefix: str) -> Tables:
    """The tables of *schema* (None = whatever the connection finds) whose names begin with *prefix*."""
    metadata = MetaData(schema=schema)
    job = Table(
        f"{prefix}job",
        metadata,
        Column("queue", Text, nullable=False),
        Column("id", Text, nullable=False),
        Column("type", Text, nullable=False),
        Column("priority", SmallInteger, nullable=False),
        Column("state", SmallInteger, nullable=False),
        Column("attempts", Integer, nullable=False),
        Column("crashes", Integer, nullable=False),
        Column("max_retries", Integer, nullable=False),
        Column("timeout", Double, nullable=False),
        Column("run_at", BigInteger, nullable=False),
        Column("due_at", BigInteger, nullable=False),
        Column("created_at", BigInteger, nullable=False),
        Column("finished_at", BigInteger),
        Column("lease_token", _TOKEN),
        Column("lease_owner", Text),
        Column("lease_until", BigInteger),
        Column("nonce", Text, nullable=False),
        Column("idempotency_key", Text),
        Column("retry_policy", _DOCUMENT),
        Column("metadata", _DOCUMENT),
        Column("errors", _DOCUMENT),
        Column("payload", LargeBinary, nullable=False),
        Column("result", LargeBinary),
        PrimaryKeyConstraint("queue", "id"),
    )
    queue = Table(
        f"{prefix}queue",
        metadata,
        Column("name", Text, primary_key=True),
        Column("paused", Boolean, nullable=False),
    )
    version = Table(
        f"{prefix}schema_version",
        metadata,
        Column("version", Integer, primary_key=True, autoincrement=False),
        Column("applied_at", BigInteger, nullable=False),
    )
    return Tables(job=job, queue=queue, schema_version=version)
