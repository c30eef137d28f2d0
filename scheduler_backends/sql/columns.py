"""
The columns of the table of jobs: types, and how the fields of a job are written to them and read from them.

From this come the row type, the SELECTs, the INSERTs and COPY of both stores, the first step of both schemas and the
tables for SQLAlchemy. A new option of a job is one more line of `JobRow`.
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
    "smallint": "INTEGER",
    "integer": "INTEGER",
    "bigint": "INTEGER",
    "double precision": "REAL",
    "bytea": "BLOB",
}
"""The types that columns may have in Postgres, and in SQLite."""


@dataclass(frozen=True, slots=True)
class Column:
    """
    A column of the table of jobs.

    type: Postgres' name of it. key: part of the primary key, which compares bytes. null: may be NULL. default: set by
    the database. stored: enqueue writes it from the field of `NewJob` with this name, through *encode* if given.
    decode: makes the field of `Job` with this name, or raises; for NULL the field has its default. neutral: the
    field's value where *decode* raises; the default where NULL is allowed.
    """

    type: str
    _: KW_ONLY
    key: bool = False
    null: bool = False
    default: int | None = None
    stored: bool = False
    encode: Callable[[Any], object] | None = None
    decode: Callable[[Any], object] | None = None
    neutral: object = None


class JobRow(NamedTuple):
    """A row of the table of jobs. Statements select the columns in this order, documents and the token as text."""

    queue: Annotated[str, Column("text", key=True, stored=True)]
    id: Annotated[str, Column("text", key=True, stored=True)]
    type: Annotated[str, Column("text", stored=True, decode=fields.name_of, neutral="")]
    priority: Annotated[
        int, Column("smallint", stored=True, encode=int, decode=fields.priority_of, neutral=Priority.NORMAL)
    ]
    state: Annotated[int, Column("smallint")]
    attempts: Annotated[int, Column("integer", default=0)]
    crashes: Annotated[int, Column("integer", default=0, decode=fields.counter_of, neutral=0)]
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
        str | None, Column("jsonb", null=True, stored=True, encode=fields.policy_text, decode=fields.policy_of)
    ]
    metadata: Annotated[
        str | None, Column("jsonb", null=True, stored=True, encode=fields.metadata_text, decode=fields.metadata_of)
    ]
    errors: Annotated[str | None, Column("jsonb", null=True, decode=fields.errors_of)]
    payload: Annotated[bytes, Column("bytea", stored=True, decode=fields.bytes_of, neutral=b"")]
    result: Annotated[bytes | None, Column("bytea", null=True, decode=fields.bytes_of)]


_HINTS: Final = get_type_hints(JobRow, include_extras=True)
COLUMNS: Final[Mapping[str, Column]] = {name: get_args(_HINTS[name])[1] for name in JobRow._fields}

STORED: Final = {name: column for name, column in COLUMNS.items() if column.stored}
"""What enqueue writes of a `NewJob`, besides the state and the moments."""

OPTIONS: Final = {name: column.decode for name, column in COLUMNS.items() if column.null and column.decode}
"""The fields that most jobs do not have, and their decoders."""


def column_clauses(type_of: Callable[[Column], str]) -> str:
    """
    Return the columns of a CREATE TABLE. *type_of* returns the database's own type of a column.

    A column that is added after a release needs a step of its own, and must be left out here.
    """
    return ",\n".join(
        f"    {name} {type_of(column)}{'' if column.null else ' NOT NULL'}"
        f"{'' if column.default is None else f' DEFAULT {column.default}'}"
        for name, column in COLUMNS.items()
    )
