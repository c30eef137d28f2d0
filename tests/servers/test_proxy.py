"""The proxy of faults, before a real server."""

import socket
import threading
from contextlib import closing

import psycopg
import pytest

from servers.ports import HOST
from servers.proxy import postgres_is_done


def connect(proxy):
    return closing(socket.create_connection((HOST, proxy.port), timeout=10))


def ask(connection, line):
    connection.sendall(line + b"\r\n")
    return connection.recv(1000)


@pytest.fixture
def proxy(new_proxy, redis_url):
    return new_proxy(redis_url)


@pytest.fixture
def key(redis_prefix):
    return redis_prefix.encode()


def test_bytes_pass_both_ways(proxy):
    with connect(proxy) as connection:
        assert ask(connection, b"PING") == b"+PONG\r\n"
        assert proxy.connections == 1


def test_large_requests_and_answers_arrive_whole(proxy, key):
    value = bytes(range(256)) * 20_000
    with connect(proxy) as connection:
        head = b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n" % (len(key), key, len(value))
        sender = threading.Thread(target=connection.sendall, args=(head + value + b"\r\n",))
        sender.start()
        assert connection.recv(5) == b"+OK\r\n"
        sender.join()
        connection.sendall(b"GET %s\r\n" % key)
        answer = b""
        while len(answer) < len(value) + len(b"$%d\r\n\r\n" % len(value)):
            answer += connection.recv(1 << 20)
        assert answer == b"$%d\r\n%s\r\n" % (len(value), value)


def test_a_cut_breaks_open_connections_and_serves_new_ones(proxy):
    with connect(proxy) as first, connect(proxy) as second:
        assert ask(first, b"PING") + ask(second, b"PING")
        proxy.cut()
        assert (first.recv(10), second.recv(10)) == (b"", b"")
    with connect(proxy) as connection:
        assert ask(connection, b"PING") == b"+PONG\r\n"


def test_refused_connections_are_taken_again_on_the_same_port(proxy):
    for _ in range(3):
        with connect(proxy) as connection:
            assert ask(connection, b"PING") == b"+PONG\r\n"
            proxy.refuse()
            assert connection.recv(10) == b""
        with pytest.raises(ConnectionRefusedError):
            connect(proxy)
        proxy.accept()


def test_a_black_hole_holds_everything_until_it_heals(proxy):
    with connect(proxy) as old:
        assert ask(old, b"PING") == b"+PONG\r\n"
        proxy.black_hole()
        with connect(proxy) as new:
            for connection in (old, new):
                connection.settimeout(0.1)
                with pytest.raises(TimeoutError):
                    ask(connection, b"PING")
                connection.settimeout(10)
            proxy.heal()
            assert (old.recv(10), new.recv(10)) == (b"+PONG\r\n", b"+PONG\r\n")


def test_connections_in_a_black_hole_can_be_cut(proxy):
    with connect(proxy) as connection:
        assert ask(connection, b"PING") == b"+PONG\r\n"
        proxy.black_hole()
        connection.sendall(b"PING\r\n")
        proxy.cut()
        assert connection.recv(10) == b""


def test_a_delay_holds_answers_up(proxy):
    with connect(proxy) as connection:
        proxy.delay(0.3)
        connection.settimeout(0.05)
        with pytest.raises(TimeoutError):
            ask(connection, b"PING")
        connection.settimeout(10)
        assert connection.recv(10) == b"+PONG\r\n"
        proxy.heal()
        assert ask(connection, b"PING") == b"+PONG\r\n"


def test_a_swallowed_reply_was_acted_on_and_breaks_only_its_connection(proxy, key):
    with connect(proxy) as victim, connect(proxy) as other:
        swallowed = proxy.swallow_reply(matching=b"INCR")
        assert ask(victim, b"PING") == b"+PONG\r\n"
        assert not swallowed.is_set()
        assert ask(victim, b"INCR " + key) == b""
        assert swallowed.wait(10)
        assert ask(other, b"GET " + key) == b"$1\r\n1\r\n"
        assert ask(other, b"INCR " + key) == b":2\r\n"  # once only


def test_a_fault_that_heals_first_never_happens(proxy, key):
    swallowed = proxy.swallow_reply()
    proxy.heal()
    with connect(proxy) as connection:
        assert ask(connection, b"INCR " + key) == b":1\r\n"
    assert not swallowed.is_set()


def test_a_request_cut_in_the_middle_is_not_acted_on(proxy, key):
    with connect(proxy) as connection:
        cut = proxy.cut_after(6, matching=b"INCR")
        assert ask(connection, b"INCR " + key) == b""
        assert cut.wait(10)
    with connect(proxy) as connection:
        assert ask(connection, b"GET " + key) == b"$-1\r\n"


def test_an_answer_cut_in_the_middle_was_acted_on(proxy, key):
    with connect(proxy) as connection:
        cut = proxy.cut_answer_after(2, matching=b"INCR")
        connection.sendall(b"INCR " + key + b"\r\n")
        answer = b""
        while piece := connection.recv(10):
            answer += piece
        assert answer == b":1"
        assert cut.wait(10)
    with connect(proxy) as connection:
        assert ask(connection, b"GET " + key) == b"$1\r\n1\r\n"


def test_a_server_that_is_down_breaks_the_connection(new_redis_server, new_proxy):
    server = new_redis_server()
    proxy = new_proxy(server.url)
    server.kill()
    with connect(proxy) as connection:
        assert connection.recv(10) == b""
    server.start()
    with connect(proxy) as connection:
        assert ask(connection, b"PING") == b"+PONG\r\n"


def test_closing_ends_every_thread_and_twice_is_harmless(new_proxy, redis_url):
    before = set(threading.enumerate())
    proxy = new_proxy(redis_url)
    with connect(proxy) as first, connect(proxy) as second:
        assert ask(first, b"PING") + ask(second, b"PING")
        proxy.black_hole()
        proxy.close()
        proxy.close()
        for thread in set(threading.enumerate()) - before:
            thread.join(10)
            assert not thread.is_alive()
    assert proxy.connections == 0


def test_the_swallowed_answer_of_a_commit_is_committed(new_proxy, postgres_url):
    proxy = new_proxy(postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as direct:
        direct.execute("CREATE TABLE IF NOT EXISTS swallowed (number int)")
        victim = psycopg.connect(proxy.url, autocommit=True)
        swallowed = proxy.swallow_reply(matching=b"INSERT", complete=postgres_is_done)
        with pytest.raises(psycopg.OperationalError):
            victim.execute("INSERT INTO swallowed SELECT generate_series(1, 100000) RETURNING number")
        assert swallowed.wait(10)
        victim.close()
        assert direct.execute("SELECT count(*) FROM swallowed").fetchone() == (100_000,)
        direct.execute("DROP TABLE swallowed")
