"""The PostgreSQL servers that the tests rest on."""

import select
from contextlib import closing

import psycopg
import pytest

pytestmark = pytest.mark.every_flavour


def value(url, statement):
    with psycopg.connect(url, connect_timeout=5) as connection:
        return connection.execute(statement).fetchone()[0]


def store(url, number):
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (number int)")
        connection.execute("INSERT INTO kept VALUES (%s)", [number])


def test_the_shared_server_offers_an_empty_database(postgres_url):
    assert value(postgres_url, "SELECT current_database()").startswith("scheduler_test_")


@pytest.mark.parametrize("end", ["kill", "crash", "stop"])
def test_a_server_comes_back_on_its_port_with_all_that_was_committed(new_postgres_server, end):
    server = new_postgres_server()
    url = server.url
    for number in range(1, 4):
        store(url, number)
        getattr(server, end)()
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(url, connect_timeout=2)
        server.start()
        assert (server.url, value(url, "SELECT count(*) FROM kept")) == (url, number)


def test_a_frozen_server_hangs_open_connections_and_new_ones_until_thawed(new_postgres_server):
    server = new_postgres_server()
    with closing(psycopg.connect(server.url, autocommit=True)) as connection:
        server.freeze()
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(server.url, connect_timeout=2)
        connection.pgconn.send_query(b"SELECT 1")
        connection.pgconn.flush()
        assert not select.select([connection.pgconn.socket], [], [], 0.2)[0]
        server.thaw()
        assert select.select([connection.pgconn.socket], [], [], 10)[0]
    assert value(server.url, "SELECT 1") == 1


def test_settings_reach_the_server(new_postgres_server):
    server = new_postgres_server(fsync=True, config={"default_transaction_isolation": "serializable"})
    assert value(server.url, "SHOW fsync") == "on"
    assert value(server.url, "SHOW synchronous_commit") == "on"
    assert value(server.url, "SHOW transaction_isolation") == "serializable"


def test_a_setting_it_does_not_know_is_reported_in_its_own_words(new_postgres_server):
    with pytest.raises(RuntimeError, match="no_such_setting"):
        new_postgres_server(config={"no_such_setting": "1"})


def test_a_frozen_server_can_be_stopped(new_postgres_server):
    server = new_postgres_server()
    server.freeze()
    server.crash()
    server.start()
    server.freeze()
    server.stop()
    server.start()
    assert value(server.url, "SELECT 1") == 1
