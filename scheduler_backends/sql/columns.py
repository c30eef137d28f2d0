"""
Columns of all tables: their SQL types, and the encoders and decoders for the fields of a job.

The row type, the SELECTs, the INSERTs and the COPY of both stores, the first step of both schemas and the SQLAlchemy
tables are all generated from this module. A new option of a job is one more line: in `JobRow` if it is read with every
job, otherwise in `UNREAD`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Final, NamedTuple, get_args, get_type_hints

from scheduler.jobs import DEFAULT_TIMEOUT, Priority
from scheduler_backends.sql import fields
from scheduler_backends.sql.moments import EPOCH

SQLITE_TYPES: Final = {
    "text": "TEXT",
    "uuid": "TEXT",
    "jsonb": "TEXT",
    "boolean": "INTEGER",
    "smallint": "INTEGER",
    "integer": "INTEGER",
    "bigint": "INTEGER",
    "double precision": "REAL",
    "bytea": "BLOB",
}
"""The SQLite type for each Postgres type that a column may have."""


@dataclass(frozen=True, slots=True)
class Column:
    """
    Definition of a column.

    Args:
        type: the Postgres type.
        key: part of the primary key, which compares text as bytes.
        null: may be NULL.
        default: SQL expression for the database's default. None = no default.
        document: "object" or "array" if the column holds JSON of that type.
        stored: enqueue writes the field of `NewJob` that has the column's name.
        encode: converts that field, unless it is empty. None = the field is written as it is.
        decode: converts the value to the field of `Job` that has the column's name, or raises. For NULL, the field has
            its default.
        neutral: the field's value if *decode* raises. Not for columns that may be NULL: the field has its default.
    """

    type: str
    _: KW_ONLY
    key: bool = False
    null: bool = False
    default: str | None = None
    document: str | None = None
    stored: bool = False
    encode: Callable[[Any], object] | None = None
    decode: Callable[[Any], object] | None = None
    neutral: object = None


class JobRow(NamedTuple):
    """Row of the jobs table. Statements select the columns in this order, and JSON and the lease token as text."""

    queue: Annotated[str, Column("text", key=True, stored=True)]
    id: Annotated[str, Column("text", key=True, stored=True)]
    type: Annotated[str, Column("text", stored=True, decode=fields.name_of, neutral="")]
    priority: Annotated[
        int, Column("smallint", stored=True, encode=int, decode=fields.priority_of, neutral=Priority.NORMAL)
    ]
    state: Annotated[int, Column("smallint")]
    attempts: Annotated[int, Column("integer", default="0")]
    crashes: Annotated[int, Column("integer", default="0", decode=fields.counter_of, neutral=0)]
    max_retries: Annotated[int, Column("integer", stored=True, decode=fields.retries_of, neutral=0)]
    timeout: Annotated[
        float, Column("double precision", stored=True, decode=fields.timeout_of, neutral=DEFAULT_TIMEOUT)
    ]
    run_at: Annotated[int, Column("bigint", decode=fields.moment_of, neutral=EPOCH)]
    due_at: Annotated[int, Column("bigint")]
    created_at: Annotated[int, Column("bigint")]
    finished_at: Annotated[int | None, Column("bigint", null=True)]
    lease_token: Annotated[str | None, Column("uuid", null=True)]
    lease_owner: Annotated[str | None, Column("text", null=True)]
    lease_until: Annotated[int | None, Column("bigint", null=True)]
    nonce: Annotated[str, Column("text", stored=True)]
    idempotency_key: Annotated[str | None, Column("text", null=True, stored=True, decode=fields.name_of)]
    retry_policy: Annotated[
        str | None,
        Column("jsonb", null=True, document="object", stored=True, encode=fields.policy_text, decode=fields.policy_of),
    ]
    metadata: Annotated[
        str | None,
        Column(
            "jsonb", null=True, document="object", stored=True, encode=fields.metadata_text, decode=fields.metadata_of
        ),
    ]
    errors: Annotated[str | None, Column("jsonb", null=True, document="array", decode=fields.errors_of)]
    payload: Annotated[bytes, Column("bytea", stored=True, decode=fields.bytes_of, neutral=b"")]
    result: Annotated[bytes | None, Column("bytea", null=True, decode=fields.bytes_of)]


_HINTS: Final = get_type_hints(JobRow, include_extras=True)
COLUMNS: Final[Mapping[str, Column]] = {name: get_args(_HINTS[name])[1] for name in JobRow._fields}

STORED: Final = {name: column for name, column in COLUMNS.items() if column.stored}
"""The columns that enqueue writes from a `NewJob`, in addition to the state and the moments."""

OPTIONS: Final = {name: column.decode for name, column in COLUMNS.items() if column.null and column.decode}
"""Decoders of the optional fields, which most jobs do not have."""


UNREAD: Final[Mapping[str, Column]] = {
    "key": Column("text", null=True),
    "keep": Column("double precision", null=True),
    "keep_until": Column("bigint", null=True),
    "expires_at": Column("bigint", null=True),
    "conflict": Column("smallint", null=True),
    "window_start": Column("bigint", null=True),
    "successor": Column("jsonb", null=True, document="object"),
    "cancel_requested": Column("jsonb", null=True, document="object"),
    "fence": Column("bigint", null=True),
    "note": Column("bytea", null=True),
    "runs": Column("jsonb", null=True, document="array"),
    "leased_at": Column("bigint", null=True),
}
"""
Columns of the jobs table that no statement for a plain job reads or writes. See docs/decisions/0008.

They come last, because a server reads a row only up to the last column that it needs. In Postgres they cost no byte: a
row's header with its bitmap of NULLs has the same size for 23 columns as for 72. In SQLite each costs a byte.
"""

TABLES: Final[Mapping[str, Mapping[str, Column]]] = {
    "schema_version": {"version": Column("integer", key=True), "applied_at": Column("bigint")},
    "job": {**COLUMNS, **UNREAD},
    "queue": {
        "name": Column("text", key=True),
        "paused": Column("boolean", default="false"),
        "paused_at": Column("bigint", null=True),
        "paused_until": Column("bigint", null=True),
        "paused_by": Column("text", null=True),
        "pause_reason": Column("text", null=True),
        "flow": Column("jsonb", null=True, document="object"),
        "next_key": Column("text", null=True),
    },
    "bucket": {
        "queue": Column("text", key=True),
        "key": Column("text", key=True),
        "tat": Column("bigint", null=True),
        "held_until": Column("bigint", null=True),
    },
    "schedule": {
        "name": Column("text", key=True),
        "declared": Column("jsonb", document="object"),
        "release": Column("bigint"),
        "edited": Column("jsonb", null=True, document="object"),
        "next_tick": Column("bigint", null=True),
        "last_tick": Column("bigint", null=True),
    },
    "worker": {
        "id": Column("text", key=True),
        "card": Column("jsonb", document="object"),
        "seen_at": Column("bigint"),
        "expires_at": Column("bigint"),
    },
    "fence": {"resource": Column("text", key=True), "fence": Column("bigint")},
    "done": {"queue": Column("text", key=True), "id": Column("text", key=True), "done_at": Column("bigint")},
}
"""The columns of each table."""
