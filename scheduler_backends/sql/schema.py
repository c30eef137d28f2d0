"""SQL that creates the tables and indexes of both databases, and the migration from one version to the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from scheduler.errors import ConfigError, SchemaMismatch
from scheduler_backends.sql.checks import CHECKS, STRAY, Bounds
from scheduler_backends.sql.columns import TABLES, Column
from scheduler_backends.sql.connections import Execute
from scheduler_backends.sql.states import FINISHED, LEASED, RETRY_WAIT, WAITING

# {s} = the schema and a dot, or empty; {p} = the prefix of the table names.
_INDEXES: Final = {
    "job_claim": f"job (queue, priority, due_at, id) WHERE state IN {WAITING}",
    "job_leased": f"job (queue, lease_token) WHERE state = {LEASED}",
    "job_retry": f"job (queue, due_at, id) WHERE state = {RETRY_WAIT}",
    "job_finished": f"job (queue, state, finished_at, id) WHERE state IN {FINISHED}",
    "job_stray": f"job (queue) WHERE {STRAY}",
    "done_at": "done (done_at)",
}


@dataclass(slots=True, kw_only=True)
class Dialect:
    """
    Differences between the databases, as SQL.

    Args:
        type_of: returns the database's type for a Postgres type.
        key: follows the type of a text column in a primary key.
        characters: the condition that names contain no control character.
        documents: returns the condition that columns hold JSON values of a type, or NULL.
        least: the function for the least argument that is not NULL. None = the database has no such function.
        greatest: the same for the greatest argument.
        tables: options of each table except that of jobs.
        jobs: options of the table of jobs.
        further: the last statements of the first step.
        now: the current time in microseconds since 1970.

    `steps` has the statements of each version, beginning with version 1. A step never changes after its release.
    """

    type_of: Callable[[str], str]
    key: str
    characters: str
    documents: Callable[[str, Sequence[str]], str]
    least: str | None = None
    greatest: str | None = None
    tables: str
    jobs: str
    further: tuple[str, ...]
    now: str
    steps: tuple[tuple[str, ...], ...] = field(init=False)

    def __post_init__(self) -> None:
        """Make the first step: all tables except that of the versions, the indexes, and the `further` statements."""
        tables = (self.table(name) for name in TABLES if name != "schema_version")
        indexes = (f"CREATE INDEX {{p}}{name} ON {{s}}{{p}}{on}" for name, on in _INDEXES.items())
        self.steps = ((*tables, *indexes, *self.further),)

    def table(self, name: str) -> str:
        """Return the CREATE TABLE statement for the table *name*."""
        columns = TABLES[name]
        checks = {
            check: " AND ".join(self._bounds(one) if isinstance(one, Bounds) else one for one in conditions)
            for check, conditions in CHECKS.get(name, {}).items()
        }
        if name == "job":
            checks["characters"] = self.characters
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

    def _bounds(self, bounds: Bounds) -> str:
        found = []
        for is_, bound, function in ((">=", bounds.low, self.least), ("<=", bounds.high, self.greatest)):
            if bound is not None:
                together = function is not None and len(bounds.values) > 1
                values = [f"{function}({', '.join(bounds.values)})"] if together else bounds.values
                found += [f"{value} {is_} {bound}" for value in values]
        return " AND ".join(found)

    def _type(self, column: Column) -> str:
        kind = self.type_of(column.type) + (self.key if column.key and column.type == "text" else "")
        default = "" if column.default is None else f" DEFAULT {column.default}"
        return f"{kind}{'' if column.null else ' NOT NULL'}{default}"


class Schema:
    """
    One set of tables, with its version and its migration.

    Args:
        dialect: the database.
        place: the name of the schema and a dot, or empty.
        prefix: the beginning of the table names.
        may_migrate: migrate the tables when they are first used.
        exists: a query that returns a row if the table of the versions exists.
    """

    def __init__(self, dialect: Dialect, *, place: str, prefix: str, may_migrate: bool, exists: str) -> None:
        self._dialect = dialect
        self._place = place
        self._prefix = prefix
        self._may_migrate = may_migrate
        self._exists = exists

    def version_of(self, execute: Execute) -> int:
        """
        Return the version in the database, 0 = there are no tables.

        If there are none, no statement fails, because that would abort a caller's transaction.
        """
        if not execute(self._exists, {}).fetchall():
            return 0
        ((version,),) = execute(f"SELECT max(version) FROM {self._place}{self._prefix}schema_version", {}).fetchall()
        return int(version or 0)

    def is_current(self, execute: Execute, *, may_migrate: bool | None = None) -> bool:
        """
        Return whether the version in the database is the newest, False = it must be migrated now.

        Raises `SchemaMismatch`, which says what to do, if it is too new, or is old and must not be migrated.
        *may_migrate* replaces the argument of the constructor.
        """
        present, known = self.version_of(execute), len(self._dialect.steps)
        if present > known:
            raise SchemaMismatch(
                f"the schema has version {present}, and this release knows {known}: install a newer reliable-scheduler"
            )
        if present < known and not (self._may_migrate if may_migrate is None else may_migrate):
            state = f"the schema has version {present}, and this release needs {known}"
            raise SchemaMismatch(
                f"{state if present else 'there is no schema'}: run `python -m scheduler_backends.sql migrate URL`, "
                "call migrate(), or open the store with migrate=True"
            )
        return present == known

    def migrate_on(self, execute: Execute) -> int:
        """Migrate inside the caller's write transaction and return the number of steps applied."""
        if self.is_current(execute, may_migrate=True):
            return 0
        present, known = self.version_of(execute), len(self._dialect.steps)
        for statement in self.statements(present, known):
            execute(statement, {})
        return known - present

    def statements(self, from_version: int, to_version: int | None) -> list[str]:
        """Return the statements between two versions (0 = no tables, None = the newest)."""
        known = len(self._dialect.steps)
        last = known if to_version is None else to_version
        if not 0 <= from_version <= last <= known:
            raise ConfigError("from_version", f"versions are 0 to {known}, and a migration only goes forward")
        found = [self._dialect.table("schema_version")] if from_version == 0 < last else []
        for version, step in enumerate(self._dialect.steps[from_version:last], start=from_version + 1):
            found += [*step, f"INSERT INTO {{s}}{{p}}schema_version VALUES ({version}, {self._dialect.now})"]
        return [statement.format(s=self._place, p=self._prefix) for statement in found]


def script(*statements: str) -> str:
    """Return *statements* as a script for psql or the sqlite3 shell."""
    return "".join(f"{statement.strip()};\n" for statement in statements)
