"""The tables and indexes that both databases have, as the SQL that makes them, and the steps between their versions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from scheduler_backends.sql.checks import CHECKS, STRAY, Bounds
from scheduler_backends.sql.columns import TABLES, Column
from scheduler_backends.sql.states import FINISHED, LEASED, RETRY_WAIT, WAITING

# {s} = the schema and a dot, or nothing; {p} = the prefix of the tables' names.
_INDEXES: Final = {
    "job_claim": f"job (queue, priority, due_at, id) WHERE state IN {WAITING}",
    "job_leased": f"job (queue, lease_token) WHERE state = {LEASED}",
    "job_retry": f"job (queue, due_at, id) WHERE state = {RETRY_WAIT}",
    "job_finished": f"job (queue, state, finished_at, id) WHERE state IN {FINISHED}",
    "job_stray": f"job (queue) WHERE {STRAY}",
    "done_at": "done (done_at)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """
    What differs between the databases.

    type_of: returns the type that has this name in Postgres. key: what follows the type of text in a primary key.
    documents: returns the condition that columns hold JSON values of a type, or NULL. bounds: returns `Bounds` as SQL.
    tables: the options of every table; jobs: of the table of jobs. now: the present moment.
    """

    type_of: Callable[[str], str]
    key: str
    documents: Callable[[str, Sequence[str]], str]
    bounds: Callable[[Bounds], str]
    tables: str
    jobs: str
    now: str

    def first_step(self) -> tuple[str, ...]:
        """Return the statements that make all tables but that of the versions, and the indexes."""
        tables = (self._table(name) for name in TABLES if name != "schema_version")
        return (*tables, *(f"CREATE INDEX {{p}}{name} ON {{s}}{{p}}{on}" for name, on in _INDEXES.items()))

    def migration(
        self, steps: Sequence[Sequence[str]], *, schema: str, prefix: str, present: int, last: int
    ) -> Iterator[str]:
        """Yield the statements between two versions. schema: with its dot, or empty."""
        if present == 0 < last:
            yield self._table("schema_version").format(s=schema, p=prefix)
        for version in range(present + 1, last + 1):
            yield from (statement.format(s=schema, p=prefix) for statement in steps[version - 1])
            yield (f"INSERT INTO {schema}{prefix}schema_version (version, applied_at) VALUES ({version}, {self.now})")

    def _table(self, name: str) -> str:
        columns = TABLES[name]
        checks = {
            check: " AND ".join(self.bounds(one) if isinstance(one, Bounds) else one for one in conditions)
            for check, conditions in CHECKS.get(name, {}).items()
        }
        for kind in ("object", "array"):
            documents = [column for column, its in columns.items() if its.document == kind]
            if documents:
                checks[f"{kind}s"] = self.documents(kind, documents)
        clauses = [
            *(f"{column} {self._type(its)}" for column, its in columns.items()),
            f"PRIMARY KEY ({', '.join(column for column, its in columns.items() if its.key)})",
            *(f"CONSTRAINT {{p}}{name}_{check} CHECK ({condition})" for check, condition in checks.items()),
        ]
        options = self.jobs if name == "job" else self.tables
        return f"CREATE TABLE {{s}}{{p}}{name} (\n    " + ",\n    ".join(clauses) + f"\n){options}"

    def _type(self, column: Column) -> str:
        kind = self.type_of(column.type) + (self.key if column.key and column.type == "text" else "")
        default = "" if column.default is None else f" DEFAULT {column.default}"
        return f"{kind}{'' if column.null else ' NOT NULL'}{default}"
