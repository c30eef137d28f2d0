"""What the statements are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Executable,
    Select,
    SmallInteger,
    Table,
    Text,
    Uuid,
    bindparam,
    case,
    cast,
    column,
    func,
    literal_column,
    values,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.sql.selectable import CTE, TableValuedAlias, Values
from sqlalchemy.types import JSON, TypeEngine

from scheduler.jobs import Priority
from scheduler.limits import MAX_ERRORS
from scheduler_backends.sql.checks import MOST
from scheduler_backends.sql.rows import COLUMNS, EARLIEST, LATEST
from scheduler_backends.sql.states import CANCELLED, DEAD, RETRY_WAIT, SCHEDULED, SUCCEEDED

Expression = ColumnElement[Any]

SEPARATOR: Final = "\1"
"""Stands in no name, since names hold no control characters."""

# Rendered for psycopg, whose parameters are %(name)s.
DIALECT: Final = PGDialect_psycopg()  # type: ignore[no-untyped-call]  # of SQLAlchemy's own


def compiled(statement: Executable) -> str:
    """The text that a psycopg cursor runs."""
    text = statement.compile(dialect=DIALECT)  # type: ignore[attr-defined]  # every Core statement can
    values = [name for name, value in text.params.items() if value is not None]
    if values:  # a bug of ours: only the call brings values, and this one would be lost
        raise AssertionError(f"a statement holds values of its own: {values}")
    return str(text)


def literal(number: int) -> Expression:
    """A number that stands in the text of the statement."""
    return literal_column(str(number))


TOKEN: Final = Uuid(as_uuid=False)
NULL: Final[Expression] = literal_column("NULL")

# Functions are named with their schema: a search_path may lead to others of the same names.
catalog: Final = func.pg_catalog

# The server's clock, as it stood when the statement began, or a test's. Not now(), which stands still in a caller's
# transaction. Not clock_timestamp(): that may change from row to row, so no index condition could hold it.
NOW: Final[Expression] = func.coalesce(
    bindparam("now", type_=BigInteger),
    literal_column("(extract(epoch FROM pg_catalog.statement_timestamp()) * 1000000)::bigint"),
)


def after(moment: Expression, micros: Expression) -> Expression:
    """The moment that much later, but never beyond what a datetime can say."""
    return func.least(moment + micros, literal(LATEST))


def given(name: str, type_: TypeEngine[Any]) -> Expression:
    """An argument of the call."""
    return bindparam(name, type_=type_)


def unnested(joined: Mapping[str, TypeEngine[Any]] | None = None, /, **arrays: TypeEngine[Any]) -> TableValuedAlias:
    """
    One row for each element of the call's arrays, which are called like the columns; `n` counts them from 1.

    joined: those that come as one text, with `SEPARATOR` between the elements: the driver takes long for arrays.
    """
    separator: Expression = literal_column(f"pg_catalog.chr({ord(SEPARATOR)})")
    texts = {
        name: cast(catalog.string_to_array(bindparam(name, type_=Text), separator), ARRAY(type_))
        for name, type_ in (joined or {}).items()
    }
    values = [*texts.values(), *(bindparam(name, type_=ARRAY(type_)) for name, type_ in arrays.items())]
    named = [column(name, type_) for name, type_ in {**(joined or {}), **arrays}.items()]
    # Of several arrays it is a part of the language, which has no schema.
    function = catalog.unnest if len(values) == 1 else func.unnest
    return function(*values).table_valued(*named, with_ordinality="n").render_derived()


def priorities() -> Values:
    """A row for each priority: an index that begins with queue and priority is probed for each, and never scanned."""
    numbers = [(int(priority),) for priority in Priority]
    return values(column("priority", SmallInteger), name="p", literal_binds=True).data(numbers)


def any_of(name: str) -> Expression:
    """Any element of an array of the call, to compare a column with."""
    return func.any(bindparam(name, type_=ARRAY(Text)))


def is_waiting(job: Any) -> Expression:
    """In scheduled or retry_wait, due or not: the predicate of the claim index."""
    found: Expression = job.c.state.in_([literal(SCHEDULED), literal(RETRY_WAIT)])
    return found


def is_finished(job: Any) -> Expression:
    """In a terminal state: the predicate of the index of finished jobs."""
    found: Expression = job.c.state.in_([literal(SUCCEEDED), literal(DEAD), literal(CANCELLED)])
    return found


def freed(**changes: Expression) -> dict[str, Expression]:
    """*changes*, and nobody holds the job any more: the token alone says who does."""
    return {**changes, "lease_token": NULL, "lease_owner": NULL, "lease_until": NULL}


def locked(rows: Select[Any], job: Table) -> CTE:
    """
    *rows* of *job*, locked in the order of their keys before anything is changed.

    All lock in the same order, so that two calls never wait for each other; unordered arrays deadlocked. Who waited for
    another's change reads the row anew, and *rows* no longer holds it if its conditions are not met then.
    """
    ordered = rows.order_by(job.c.queue, job.c.id).with_for_update(of=job)
    return ordered.cte("held").prefix_with("MATERIALIZED")


def row_of(job: Any) -> list[Expression]:
    """The columns of `rows.JobRow`; documents as the text that it reads."""
    return [
        cast(job.c[name], Text).label(name) if isinstance(job.c[name].type, JSON) else job.c[name] for name in COLUMNS
    ]


def with_error(job: Table, error: Expression) -> Expression:
    """The job's errors with *error* (JSON text, NULL = none) appended, its attempt and the moment added."""
    attempt = func.greatest(job.c.attempts, literal(0))
    added: tuple[Expression, ...] = (literal_column("'attempt'"), attempt, literal_column("'at'"), NOW)
    entry = cast(error, JSONB).op("||")(catalog.jsonb_build_object(*added))
    kept = case(
        (job.c.errors.is_(None), literal_column("'[]'::jsonb")),
        (catalog.jsonb_array_length(job.c.errors) >= literal(MAX_ERRORS), job.c.errors.op("-")(literal(0))),
        else_=job.c.errors,
    )
    # Errors that are no array stay as they are: whoever reads them says so.
    is_array = job.c.errors.is_(None) | (catalog.jsonb_typeof(job.c.errors) == literal_column("'array'"))
    return case((error.is_not(None) & is_array, kept.op("||")(entry)), else_=job.c.errors)


def one_more(counter: Expression) -> Expression:
    """*counter* and one, within what its column holds."""
    return func.least(counter, literal(MOST - 1)) + literal(1)


def given_back(attempts: Expression, returned: Expression) -> Expression:
    """*attempts* without those *returned*, 0 or 1; what is no number of attempts stays none."""
    return attempts - case((attempts > literal(0), returned), else_=literal(0))


def expiry_of(job: Any) -> Expression:
    """When a lease ends; one whose end is none has ended."""
    is_moment = job.c.lease_until.between(literal(EARLIEST), literal(LATEST))
    return case((is_moment, job.c.lease_until), else_=literal(EARLIEST))
