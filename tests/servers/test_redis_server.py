"""The Redis and Valkey servers that the tests rest on."""

import socket
import threading

import pytest

from servers import resp
from servers.redis_server import RedisServer

pytestmark = pytest.mark.every_flavour


@pytest.mark.parametrize("persistence", ["everysec", "always"])
def test_a_killed_server_comes_back_on_its_port_with_its_data(new_redis_server, persistence):
    server = new_redis_server(persistence=persistence)
    url = server.url
    for number in range(5):
        server.command("SET", "key", number)
        server.kill()
        with pytest.raises(OSError):
            server.command("PING")
        server.start()
        assert (server.url, server.command("GET", "key")) == (url, b"%d" % number)


def test_without_persistence_a_restart_forgets(new_redis_server):
    server = new_redis_server(persistence="none")
    server.command("SET", "key", "lost")
    server.restart()
    assert server.command("GET", "key") is None


def test_a_frozen_server_takes_connections_and_answers_nothing_until_thawed(new_redis_server):
    server = new_redis_server()
    server.freeze()
    with pytest.raises(TimeoutError):
        resp.command(server.port, "PING", timeout=0.2)
    server.thaw()
    assert server.command("PING") == b"PONG"


def test_a_frozen_server_can_be_stopped(new_redis_server):
    server = new_redis_server()
    server.freeze()
    server.stop()
    server.stop()
    server.start()
    assert server.command("PING") == b"PONG"


def test_extra_settings_reach_the_server(new_redis_server):
    server = new_redis_server(config={"maxmemory": "3mb", "client-output-buffer-limit": "pubsub 1mb 2mb 3"})
    assert server.command("CONFIG", "GET", "maxmemory") == [b"maxmemory", b"3145728"]


def test_a_setting_it_does_not_know_is_reported_in_its_own_words(new_redis_server):
    with pytest.raises(RuntimeError, match="no-such-setting"):
        new_redis_server(config={"no-such-setting": "1"})


def test_it_listens_on_a_unix_socket_too(new_redis_server):
    server = new_redis_server()
    if not isinstance(server, RedisServer):
        pytest.skip("a container's socket is not of this machine")
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(server.socket))
        connection.sendall(b"PING\r\n")
        assert connection.recv(16) == b"+PONG\r\n"


def test_a_server_refuses_to_be_started_by_another_thread(new_redis_server):
    """The kernel would end it together with that thread."""
    server = new_redis_server()
    if not isinstance(server, RedisServer):
        pytest.skip("a container is no child of this process")
    server.stop()
    errors = []

    def start():
        try:
            server.start()
        except RuntimeError as error:
            errors.append(str(error))

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert "main thread" in errors[0]


def test_closing_twice_is_harmless_and_leaves_no_files(new_redis_server):
    server = new_redis_server()
    server.close()
    server.close()
    assert not server.is_running
    if isinstance(server, RedisServer):
        assert not server.directory.exists()
