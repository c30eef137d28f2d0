"""What a URL or a client means, and what is refused of it. No server is asked."""

from __future__ import annotations

import ssl

import pytest
import redis
from redis.asyncio import Redis as AsyncRedis
from redis.backoff import NoBackoff
from redis.retry import Retry

from scheduler.errors import ConfigError
from scheduler.plugins import backend_from_url
from scheduler.queues import Retention
from scheduler_backends.redis import RedisBackend, RedisConfig


class settings:  # noqa: N801 - reads as what it tells
    """How the first connection would be made."""

    def __init__(self, backend: RedisBackend) -> None:
        self._connection = backend._store.calls._router._make()

    def __getitem__(self, name: str) -> object:
        return type(self._connection).__name__ if name == "class" else getattr(self._connection, name)


@pytest.mark.parametrize("scheme", ["redis", "rediss", "valkey", "valkeys", "redis+cluster", "unix"])
def test_each_scheme_finds_the_backend(scheme):
    backend = backend_from_url(f"{scheme}:///run/redis.sock" if scheme == "unix" else f"{scheme}://localhost")
    assert isinstance(backend, RedisBackend)
    backend.close()


def test_a_url_says_where_who_and_how():
    made = settings(RedisBackend("rediss://ann:s%40cret@example.org:6400/3?protocol=2&timeout=1.5&client_name=mail"))
    assert made["class"] == "SSLConnection"
    assert (made["host"], made["port"], made["db"]) == ("example.org", 6400, 3)
    assert (made["username"], made["password"]) == ("ann", "s@cret")
    assert (made["protocol"], made["client_name"]) == (2, "mail")
    assert (made["socket_timeout"], made["socket_connect_timeout"]) == (1.5, 1.5)


def test_a_socket_has_a_path_and_a_database():
    made = settings(RedisBackend("unix:///run/redis.sock?db=5"))
    assert (made["path"], made["db"]) == ("/run/redis.sock", 5)


def test_an_ipv6_address_is_read():
    made = settings(RedisBackend("redis://[::1]:7000"))
    assert (made["host"], made["port"]) == ("::1", 7000)


def test_several_hosts_are_for_sentinel_and_cluster():
    cluster = RedisBackend("redis+cluster://one:7000,two,[::1]:7002")._store.calls._router
    assert cluster._start == (("one", 7000), ("two", 6379), ("::1", 7002))
    with pytest.raises(ConfigError):
        RedisBackend("redis://one,two")


def test_sentinels_are_asked_with_their_own_credentials():
    backend = RedisBackend("redis+sentinel://ann:secret@one:26379,two/mymaster/2?sentinel_password=other")
    made = settings(backend)
    assert (made["db"], made["username"], made["password"]) == (2, "ann", "secret")
    manager = made["connection_pool"].sentinel_manager
    assert made["connection_pool"].service_name == "mymaster"
    asked = [client.connection_pool.connection_kwargs for client in manager.sentinels]
    assert [(one["host"], one["port"], one["password"]) for one in asked] == [
        ("one", 26379, "other"),
        ("two", 26379, "other"),
    ]
    assert all(one["socket_timeout"] == 3.0 for one in asked)


def test_options_of_the_url_go_before_those_of_the_arguments():
    backend = RedisBackend(
        "redis://localhost?prefix=app&partitions=2&active_version=4&timeout=1&retain_succeeded=60",
        RedisConfig(prefix="other", topology_interval=5.0),
        retention=Retention(succeeded=1.0),
    )
    assert backend.config == RedisConfig(
        prefix="app", partitions=2, active_version=4, timeout=1.0, topology_interval=5.0
    )
    assert backend.retention == Retention(succeeded=60.0)


@pytest.mark.parametrize(
    ("url", "field"),
    [
        ("redis://localhost?colour=red", "colour"),
        ("redis://localhost?partitions=many", "partitions"),
        ("redis://localhost?partitions=0", "partitions"),
        ("redis://localhost?partitions=257", "partitions"),
        ("redis://localhost?active_version=0", "active_version"),
        ("redis://localhost?prefix=", "prefix"),
        ("redis://localhost?timeout=0", "timeout"),
        ("redis://localhost?timeout=nan", "timeout"),
        ("redis://localhost?protocol=4", "protocol"),
        ("redis://localhost?topology_interval=-1", "topology_interval"),
        ("redis://localhost/two", "db"),
        ("redis://localhost/1?db=2", "db"),
        ("redis://localhost:99999", "url"),
        ("redis://localhost:port", "url"),
        ("redis+sentinel://localhost", "url"),
        ("redis+cluster://localhost/1", "db"),
        ("memcached://localhost", "url"),
        ("rediss://localhost?ssl_cert_reqs=nonsense", "ssl_cert_reqs"),
        ("rediss://localhost?ssl_cert_reqs=", "ssl_cert_reqs"),
        ("rediss://localhost?ssl_cert_reqs=none&ssl_check_hostname=true", "ssl_check_hostname"),
        ("redis://localhost?ssl_ca_certs=/etc/ca.pem", "ssl_ca_certs"),
        ("rediss://localhost?ssl_ca_certs=/nowhere/ca.pem", "ssl_ca_certs"),
        ("rediss://localhost?ssl_ca_certs=/", "ssl_ca_certs"),
        ("rediss://localhost?ssl_certfile=/nowhere/cert.pem", "ssl_certfile"),
        ("rediss://localhost?ssl_keyfile=%00", "ssl_keyfile"),
        ("unix:///run/redis.sock?ssl_cert_reqs=none", "ssl_cert_reqs"),
    ],
)
def test_a_wrong_part_of_a_url_is_named(url, field):
    with pytest.raises(ConfigError) as refusal:
        RedisBackend(url)
    assert refusal.value.field == field


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("none", ssl.CERT_NONE),
        ("CERT_NONE", ssl.CERT_NONE),
        ("CERT_REQUIRED", ssl.CERT_REQUIRED),
        ("optional", ssl.CERT_OPTIONAL),
    ],
)
def test_how_certificates_are_checked_is_read_in_every_usual_spelling(written, read):
    made = settings(RedisBackend(f"rediss://localhost?ssl_cert_reqs={written}"))
    assert made["cert_reqs"] == read
    assert made["check_hostname"] == (read != ssl.CERT_NONE)


def test_a_password_is_not_shown():
    backend = RedisBackend("redis://ann:secret@localhost/0?sentinel_password=other")
    assert "secret" not in repr(backend)
    assert "other" not in repr(backend)
    assert "ann" in repr(backend)


def test_a_client_s_settings_are_used_but_nothing_is_sent_twice(caplog):
    client = redis.Redis(host="example.org", port=7, db=4, password="x", decode_responses=True, socket_timeout=0.5)  # noqa: S106
    made = settings(RedisBackend(client))
    assert (made["host"], made["port"], made["db"], made["password"]) == ("example.org", 7, 4, "x")
    assert made["socket_timeout"] == 0.5
    assert made["retry"].get_retries() == 0
    assert not made["encoder"].decode_responses
    (record,) = caplog.records
    assert "repeats commands" in record.getMessage()


def test_a_client_that_sends_nothing_twice_is_taken_without_a_word(caplog):
    RedisBackend(redis.Redis(retry=Retry(NoBackoff(), 0)))
    assert not caplog.records


def test_a_client_without_a_time_out_is_given_one():
    client = redis.Redis(socket_timeout=None, socket_connect_timeout=None, retry=Retry(NoBackoff(), 0))
    made = settings(RedisBackend(client, RedisConfig(timeout=2.5)))
    assert (made["socket_timeout"], made["socket_connect_timeout"]) == (2.5, 2.5)


@pytest.mark.parametrize("nonsense", [None, 1, object(), AsyncRedis()], ids=["none", "number", "object", "asyncio"])
def test_what_is_neither_url_nor_client_is_refused(nonsense):
    with pytest.raises(ConfigError) as refusal:
        RedisBackend(nonsense)
    assert refusal.value.field == "client_or_url"


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({"host": "example.org", "port": 7}, "Connection"),
        ({"host": "example.org", "port": 7, "ssl": True}, "SSLConnection"),
        ({"unix_socket_path": "/run/valkey.sock"}, "UnixDomainSocketConnection"),
    ],
    ids=["plain", "tls", "socket"],
)
def test_a_client_of_valkey_py_is_taken_for_its_settings(arguments, kind):
    valkey = pytest.importorskip("valkey")
    made = settings(RedisBackend(valkey.Valkey(db=3, password="x", **arguments)))  # noqa: S106
    assert (made["class"], made["db"], made["password"]) == (kind, 3, "x")
    assert isinstance(made._connection, redis.connection.AbstractConnection)
