"""`scheduler healthcheck` asks a worker's health port, and what the port does with clients of any kind."""

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
from scheduler.cli.health_port import HealthPort, Reports
from scheduler.cli.healthcheck import Address, parse_url
from scheduler.cli.status import Status


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
def port():
    """A health port whose status a test may change."""
    now = {"live": True, "ready": False}
    with HealthPort("127.0.0.1", 0, lambda: Status(**now), metrics=False) as served:
        served.now = now
        yield served


def test_the_exit_status_tells_whether_it_lives_or_is_ready(port):
    number = str(port.port)
    lives = check("--health-port", number)
    assert (lives.returncode, lives.stderr) == (0, "")
    assert lives.stdout.startswith(f'http://127.0.0.1:{number}/live: 200 {{"live": true')
    ready = check("--health-port", number, "--ready")
    assert (ready.returncode, ready.stdout) == (1, "")
    assert "503" in ready.stderr
    port.now["ready"] = True
    assert check("--url", f"http://localhost:{number}/ready").returncode == 0
    assert check("--url", f"http://localhost:{number}/else").returncode == 1


def test_the_workers_own_environment_says_where_to_ask(port):
    assert check(SCHEDULER_WORKER_HEALTH_PORT=str(port.port), SCHEDULER_WORKER_HEALTH_HOST="0.0.0.0").returncode == 0  # noqa: S104


@pytest.mark.parametrize(
    "arguments",
    [
        (), ("--health-port", "0"), ("--health-port", "70000"), ("--url", "https://127.0.0.1:1/live"),
        ("--url", "http://127.0.0.1/live"), ("--url", "http://127.0.0.1:1/a b"),
        ("--health-port", "1", "--timeout", "nan"),
    ],
)  # fmt: skip
def test_a_wrong_command_line_is_usage(arguments):
    ran = check(*arguments)
    assert ran.returncode == 2
    assert "Traceback" not in ran.stderr


def test_nobody_there_and_no_answer_are_told_in_one_line():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        number = str(silent.getsockname()[1])
        ran = check("--health-port", number, "--timeout", "0.2")
        assert (ran.returncode, ran.stderr) == (1, f"http://127.0.0.1:{number}/live: no answer within 0.2 s\n")
    gone = check("--health-port", number)
    assert gone.returncode == 1
    assert len(gone.stderr.splitlines()) == 1


def test_what_is_no_answer_of_a_worker_is_no_health():
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


def test_addresses_of_both_kinds_are_read():
    assert parse_url("http://[::1]:80/ready") == Address("::1", 80, "/ready")
    assert parse_url("HTTP://worker:8080") == Address("worker", 8080, "/live")


def test_it_costs_little(port):
    """It is started every few seconds. The least of several runs: a loaded machine makes the others dearer."""
    spent = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert check("--health-port", str(port.port)).returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(spent) < 0.5


def test_it_imports_neither_a_store_nor_the_worker(port):
    script = f"""
import sys
from scheduler.cli import main
sys.argv = ["scheduler", "healthcheck", "--health-port", "{port.port}"]
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
    kinds = re.findall(r"The health port failed to answer: (\w+)", command.output)
    assert len(kinds) == len(set(kinds))


def test_failures_of_a_kind_are_logged_once_a_minute(caplog, monkeypatch):
    now = 0.0
    monkeypatch.setattr("scheduler.cli.health_port.time.monotonic", lambda: now)
    reports = Reports()
    for kind in ("A", "A", "B", "A"):
        reports.report(kind, "why")
    now = 61.0
    reports.report("A", "why")
    assert [message.partition("answer: ")[2] for message in caplog.messages] == [
        "A: why", "B: why", "A: why (2 more since the last such line)",
    ]  # fmt: skip


def test_clients_that_send_nothing_keep_nobody_out_for_long(port):
    idle = [socket.create_connection(("127.0.0.1", port.port)) for _ in range(100)]
    try:
        wait_until(lambda: answers(port.port))
    finally:
        for client in idle:
            client.close()


def answers(number: int) -> bool:
    try:
        return ask(f"http://127.0.0.1:{number}/live")[0] == 200
    except OSError:
        return False
