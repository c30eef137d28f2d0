"""
python -m scheduler_backends.sql migrate URL        bring the schema up to date
python -m scheduler_backends.sql sql URL            print the statements that `migrate` would run, for review
python -m scheduler_backends.sql check URL          exit with status 1 and print what to do if it is not up to date
"""  # noqa: D205 - printed as the command's help

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Protocol, cast, runtime_checkable

from scheduler.errors import SchedulerError
from scheduler.plugins import backend_from_url


@runtime_checkable
class Migratable(Protocol):
    """Backend with a versioned schema."""

    def migrate(self) -> int:
        """Bring the tables up to date and return the number of steps applied."""
        ...

    def schema_version(self) -> int:
        """Return the version of the schema in the database, 0 = there are no tables."""
        ...

    def check_schema(self) -> None:
        """Raise `SchemaMismatch` unless the schema has the newest version of this release. Changes nothing."""
        ...

    def migration_sql(self, from_version: int = 0, to_version: int | None = None) -> str:
        """Return the SQL that `migrate` runs between two versions (None = the newest)."""
        ...


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m scheduler_backends.sql",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=("migrate", "sql", "check"))
    parser.add_argument("url", help="postgresql://… or sqlite:///…, the same URL as in your program")
    parser.add_argument(
        "--from", dest="from_version", type=int, help="sql: from this version (default: the database's)"
    )
    parser.add_argument("--to", dest="to_version", type=int, help="sql: to this version (default: the newest)")
    chosen = parser.parse_args(arguments)
    try:
        return _run(chosen)
    except SchedulerError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1


def _run(chosen: argparse.Namespace) -> int:
    backend = backend_from_url(chosen.url)
    try:
        if not isinstance(backend, Migratable):
            print(f"{backend!r} has no schema", file=sys.stderr)
            return 1
        if chosen.command == "migrate":
            steps = backend.migrate()
            print(f"{steps} step{'s' * (steps != 1)} applied" if steps else "up to date already")
        elif chosen.command == "sql":
            present = backend.schema_version() if chosen.from_version is None else cast("int", chosen.from_version)
            print(backend.migration_sql(present, chosen.to_version), end="")
        else:
            backend.check_schema()  # other calls may migrate, if the URL has migrate=true
            print(f"version {backend.schema_version()}, up to date")
        return 0
    finally:
        backend.close()


if __name__ == "__main__":
    sys.exit(main())
