"""The conformance suite on each PostgreSQL found, behind pgbouncer, and where every transaction is serializable."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import ClassVar

import psycopg
import pytest
import sqlalchemy as sa

from damaged_rows import IDS, ROWS
from scheduler.testing.contract import BackendContract, Damage, IdDamage
from scheduler.testing.contract.fixtures import ContractFixtures
from scheduler.testing.contract.suite import SequencesContract
from scheduler.testing.harness import OpenBackend
from scheduler_backends.postgres import PostgresBackend
from servers import binaries
from servers.pgbouncer import PgBouncer


def _writes(columns: Mapping[str, object]) -> Callable[[PostgresBackend, str, str], None]:
    values = ", ".join(f"{name} = %s{'::jsonb' * (name in ('retry_policy', 'metadata', 'errors'))}" for name in columns)
    update = f"UPDATE contract.job SET {values} WHERE queue = %s AND id = %s"

    def write(backend: PostgresBackend, queue: str, id: str) -> None:
        url = backend._store.database.engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
        with psycopg.connect(url, autocommit=True) as other:
            try:
                changed = other.execute(update, (*columns.values(), queue, id))
            except psycopg.errors.CheckViolation:
                checks = "SELECT conname FROM pg_constraint WHERE conrelid = 'contract.job'::regclass AND contype = 'c'"
                for (name,) in other.execute(checks).fetchall():
                    other.execute(f"ALTER TABLE contract.job DROP CONSTRAINT {name}")
                changed = other.execute(update, (*columns.values(), queue, id))
            assert changed.rowcount == 1

    return write


@pytest.mark.every_flavour(further="long")
class TestPostgresBackend(BackendContract):
    backend_type = PostgresBackend

    damages: ClassVar[dict[str, Damage]] = {
        name: Damage(
            field=garbage.column,
            write=_writes({garbage.column: garbage.value}),
            states=garbage.states,
            repaired_by_requeue=garbage.repaired_by_requeue,
        )
        for name, garbage in ROWS.items()
    }
    damages_of_id: ClassVar[dict[str, IdDamage]] = {
        name: IdDamage(write=_writes(columns)) for name, columns in IDS.items()
    }
    examples = 8  # every step is a round trip; more are drawn below

    @pytest.fixture
    def open_backend(self, postgres_url) -> OpenBackend:
        return partial(PostgresBackend, postgres_url, schema="contract", migrate=True)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.every_flavour
class TestLongSequences(SequencesContract, ContractFixtures):
    examples = 200
    steps = 50

    @pytest.fixture
    def open_backend(self, postgres_url) -> OpenBackend:
        return partial(PostgresBackend, postgres_url, schema="long_sequences", migrate=True)


@pytest.fixture(scope="session")
def pooled_url(postgres_url) -> Iterator[str]:
    """The database through one pgbouncer for all tests of this process, in transaction mode."""
    found = binaries.pgbouncer()
    if isinstance(found, str):
        pytest.skip(found)  # in CI too: it cannot be had by pip
    with PgBouncer(found.path, postgres_url, pool_size=8) as pool:
        yield pool.through(postgres_url)


@pytest.mark.long  # the same statements as above, prepared by nobody
class TestBehindPgbouncer(BackendContract):
    backend_type = PostgresBackend

    examples = 8

    @pytest.fixture
    def open_backend(self, pooled_url, postgres_url) -> OpenBackend:
        return partial(
            PostgresBackend, pooled_url, pgbouncer=True, listen_url=postgres_url, schema="pooled", migrate=True
        )


@pytest.fixture(scope="session")
def serializable(postgres_url) -> Iterator[sa.Engine]:
    """An engine of somebody whose server is set to the strictest isolation."""
    engine = sa.create_engine(
        sa.make_url(postgres_url).set(drivername="postgresql+psycopg"),
        connect_args={"options": "-c default_transaction_isolation=serializable"},
        pool_size=40,
    )
    yield engine
    engine.dispose()


@pytest.mark.long
class TestSerializable(BackendContract):
    backend_type = PostgresBackend

    examples = 8

    @pytest.fixture
    def open_backend(self, serializable) -> OpenBackend:
        return partial(PostgresBackend, serializable, schema="serializable", migrate=True)
