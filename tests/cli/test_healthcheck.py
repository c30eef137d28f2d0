"""`scheduler healthcheck`, and the health port with clients of all kinds."""

from __future__ import annotations

import os
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading

import pytest

from programs import ask, wait_until
from scheduler.cli.health_port import FailureLog, serve_health
from scheduler.cli.options import WorkerOptions
from scheduler.cli.protocol import Status
from scheduler.errors import ConfigError


def check(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "scheduler.cli", "healthcheck", *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def now():
    """The status that the health port serves, which a test may change."""
    return {"live": True, "ready": False}


@pytest.fixture
def port(now):
    """The number of a health port."""
    with serve_health(WorkerOptions(target="app:worker", health_port=0), lambda: Status(**now)) as number:
        yield number


def test_the_exit_status_says_whether_it_is_live_or_ready(port, now):
    live = check("--health-port", str(port))
    assert (live.returncode, live.stderr) == (0, "")
    assert live.stdout.startswith(f'http://127.0.0.1:{port}/live: 200 {{"live": true')
    ready = check("--health-port", str(port), "--ready")
    assert (ready.returncode, ready.stdout) == (1, "")
    assert "503" in ready.stderr
    now["ready"] = True
    assert check("--health-port", str(port), "--health-host", "localhost", "--ready").returncode == 0


@pytest.mark.parametrize("host", ["é" * 70, "a..b", "x\ny"], ids=ascii)
def test_an_address_to_listen_on_that_cannot_be_used_is_a_wrong_configuration(host):
    options = WorkerOptions(target="app:worker", health_port=0, health_host=host)
    with pytest.raises(ConfigError) as refusal, serve_health(options, Status):
        pass
    assert refusal.value.field == "health_port"


def test_the_workers_own_environment_says_where_to_ask(port):
    assert check(SCHEDULER_WORKER_HEALTH_PORT=str(port), SCHEDULER_WORKER_HEALTH_HOST="0.0.0.0").returncode == 0  # noqa: S104


@pytest.mark.parametrize(
    "arguments",
    [
        (), ("--health-port", "0"), ("--health-port", "70000"), ("--health-port", "1", "--timeout", "nan"),
        ("--health-port", "1", "--timeout", "inf"), ("--health-port", "1", "--timeout", "1e300"),
    ],
)  # fmt: skip
def test_a_wrong_command_line_is_usage(arguments):
    ran = check(*arguments)
    assert ran.returncode == 2
    assert "Traceback" not in ran.stderr


def test_a_closed_port_and_a_missing_response_are_one_line():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        number = str(silent.getsockname()[1])
        ran = check("--health-port", number, "--timeout", "0.2")
        assert (ran.returncode, ran.stderr) == (1, f"http://127.0.0.1:{number}/live: no response within 0.2 s\n")
    gone = check("--health-port", number)
    assert gone.returncode == 1
    assert len(gone.stderr.splitlines()) == 1


def test_a_response_that_is_not_http_is_not_good():
    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1_000)
            connection.sendall(b"+PONG\x1b[31m\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        ran = check("--health-port", str(listener.getsockname()[1]))
        thread.join()
    assert ran.returncode == 1
    assert "not HTTP" in ran.stderr


def test_an_address_of_the_newer_kind_is_asked_too(now):
    options = WorkerOptions(target="app:worker", health_host="::1", health_port=0)
    with serve_health(options, lambda: Status(**now)) as number:
        asked = check("--health-port", str(number), "--health-host", "::")
    assert asked.stdout.startswith(f"http://[::1]:{number}/live: 200"), asked.stderr


def test_it_costs_little(port):
    """It is started every few seconds. The least of several runs: a loaded machine makes the others more expensive."""
    spent = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert check("--health-port", str(port)).returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(spent) < 0.5


def test_it_imports_neither_a_store_nor_the_worker(port):
    script = f"""
import sys
from scheduler.cli import main
sys.argv = ["scheduler", "healthcheck", "--health-port", "{port}"]
try:
    main()
except SystemExit as ended:
    assert ended.code == 0, ended.code
heavy = {{"sqlalchemy", "rich", "redis", "psycopg", "sqlite3", "http.client", "logging", "scheduler.worker"}}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


# ---- the port


def test_clients_that_hang_up_leave_no_traceback(application):
    command = application.start("app:worker", "--health-port", "0", "--metrics")
    (match,) = command.expect(r"http://127\.0\.0\.1:(\d+)/ready")
    for sent in [b"GET /metrics HTTP/1.0\r\n\r\n", b"GET /li", b"\x16\x03\x01", b""] * 15:
        with socket.create_connection(("127.0.0.1", int(match[1]))) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset, not an end
            client.sendall(sent)
    assert ask(f"http://127.0.0.1:{match[1]}/live")[0] == 200
    command.signal(signal.SIGTERM)
    assert command.ended() == 0, command.output
    assert "Traceback" not in command.output
    kinds = re.findall(r"The health port failed to respond: (\w+)", command.output)
    assert len(kinds) == len(set(kinds))


def test_failures_of_a_kind_are_logged_once_a_minute(caplog, monkeypatch):
    now = 0.0
    monkeypatch.setattr("scheduler.cli.health_port.time.monotonic", lambda: now)
    failures = FailureLog()
    for kind in ("A", "A", "B", "A"):
        failures.add(kind, "why")
    now = 61.0
    failures.add("A", "why")
    assert [message.partition("respond: ")[2] for message in caplog.messages] == [
        "A: why", "B: why", "A: why (2 more since the last such line)",
    ]  # fmt: skip


def test_clients_that_send_nothing_block_others_only_for_a_while(port):
    idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
    try:
        wait_until(lambda: answers(port))
    finally:
        for client in idle:
            client.close()


def answers(number: int) -> bool:
    try:
        return ask(f"http://127.0.0.1:{number}/live")[0] == 200
    except OSError:
        return False
