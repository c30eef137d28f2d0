"""The pool before PostgreSQL."""

import psycopg
import pytest

pytestmark = pytest.mark.every_flavour


def test_statements_pass_and_sessions_share_few_server_connections(postgres_url, new_pgbouncer):
    bouncer = new_pgbouncer(postgres_url, pool_size=1)
    with (
        psycopg.connect(bouncer.url, autocommit=True, prepare_threshold=None) as first,
        psycopg.connect(bouncer.through(postgres_url), autocommit=True, prepare_threshold=None) as second,
    ):
        pids = {session.execute("SELECT pg_backend_pid()").fetchone() for session in (first, second)}
    assert len(pids) == 1


def test_a_killed_pool_comes_back_on_its_port(postgres_url, new_pgbouncer):
    bouncer = new_pgbouncer(postgres_url)
    bouncer.kill()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(bouncer.url, connect_timeout=2)
    bouncer.start()
    with psycopg.connect(bouncer.url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
