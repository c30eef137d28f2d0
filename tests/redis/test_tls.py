"""TLS that will never come about is told as such: a caller who waits for it waits for ever."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from scheduler.errors import BackendError, BackendUnavailable
from wait_timeout import WAIT_TIMEOUT


class TlsServer:
    """Shakes hands and ends the connection, over and over."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, key)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connected, _ = self._listening.accept()
            except OSError:
                return
            with connected, suppress(OSError), self._context.wrap_socket(connected, server_side=True):
                pass

    def close(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(WAIT_TIMEOUT)


@pytest.fixture
def tls_server(tmp_path) -> Iterator[TlsServer]:
    """With a certificate that nobody has signed."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl to make a certificate with")
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    subprocess.run([openssl, *words, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    server = TlsServer(certificate, key)
    yield server
    server.close()


def refusal_of(backend) -> BackendError:
    with pytest.raises(BackendError) as refusal:
        backend.ping()
    return refusal.value


def test_a_certificate_that_nobody_vouches_for_is_no_outage(tls_server, new_backend):
    refusal = refusal_of(new_backend(f"rediss://127.0.0.1:{tls_server.port}"))
    assert not isinstance(refusal, BackendUnavailable)
    assert "CERTIFICATE_VERIFY_FAILED" in str(refusal)


def test_a_waiter_says_so_too(tls_server, new_backend):
    waiter = new_backend(f"rediss://127.0.0.1:{tls_server.port}").waiter(["default"])
    with pytest.raises(BackendError) as refusal:
        waiter.wait(1.0)
    assert not isinstance(refusal.value, BackendUnavailable)
    waiter.close()


def test_a_connection_that_ends_after_the_handshake_is_an_outage(tls_server, new_backend):
    url = f"rediss://127.0.0.1:{tls_server.port}?ssl_cert_reqs=CERT_NONE"
    assert isinstance(refusal_of(new_backend(url)), BackendUnavailable)


@pytest.mark.parametrize("wrong", ["password", "user", "database"])
def test_what_the_server_refuses_for_good_is_no_outage(new_redis_server, new_backend, wrong):
    server = new_redis_server(persistence="none")
    server.command("ACL", "SETUSER", "worker", "on", ">secret", "~*", "&*", "+@all")
    user = {"password": "worker:other", "user": "nobody:secret", "database": "worker:secret"}[wrong]
    url = server.url.partition("/0")[0].replace("redis://", f"redis://{user}@")
    refusal = refusal_of(new_backend(f"{url}/{9_999 if wrong == 'database' else 0}"))
    assert not isinstance(refusal, BackendUnavailable)
