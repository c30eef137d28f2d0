"""`scheduler worker` with one process."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import urllib.request

import pytest

from programs import ask, wait_until
from scheduler.cli import launch, main
from scheduler.cli.health_port import serve_health
from scheduler.cli.options import WorkerOptions
from scheduler.cli.protocol import Status
from scheduler.cli.signals import SAME_SIGNAL


def test_burst_runs_what_is_ready_and_exits(application):
    jobs = [application.producer.enqueue("say").job.id for _ in range(20)]
    later = application.producer.enqueue("say", delay=3600).job.id
    command = application.start("app:worker", "--burst")
    assert command.ended() == 0, command.output
    assert {match[1] for match in re.finditer(r"ran (\S+)", command.output)} == set(jobs)
    assert later not in command.output
    assert application.states() == {"scheduled": 1, "succeeded": 20}


def test_a_factory_makes_the_worker(application):
    command = application.start("app:create()", "--burst")
    assert command.ended() == 0
    assert "created" in command.output


@pytest.mark.parametrize(
    ("target", "advice"),
    [
        ("app", "module:attribute"),
        ("app:", "module:attribute"),
        ("app:nothing", "no attribute"),
        ("app:not_a_worker", "not a Worker"),
        ("app:not_a_worker()", "not callable"),
        ("nowhere:worker", "no module"),
        ("app:create", "app:create()"),
    ],
)
def test_a_wrong_target_is_reported_in_one_line(application, target, advice):
    command = application.start(target)
    assert command.ended() == 2
    assert advice in command.output
    assert "Traceback" not in command.output


WHAT_THE_APPLICATION_MUST_FIX = {
    "import no_such_package_of_the_application": "no_such_package_of_the_application",
    "from os import no_such_name": "no_such_name",
    "nothing = here +": "SyntaxError",
    "worker = Worker(MemoryBackend(), WorkerConfig(queues=['mail.*']))": "exact names",
    "@Worker(MemoryBackend()).handler\ndef send(job, ctx): ...": "email.send",
}


@pytest.mark.parametrize("processes", ["1", "2"])
@pytest.mark.parametrize("code", WHAT_THE_APPLICATION_MUST_FIX)
def test_what_the_application_must_fix_is_one_line_and_no_reason_to_restart(application, code, processes):
    lines = f"from scheduler import *\nfrom scheduler_backends.memory import MemoryBackend\n{code}\n"
    (application.folder / "broken.py").write_text(lines)
    command = application.start("broken:worker", "--processes", processes)
    assert command.ended() == 2, command.output
    assert "Traceback" not in command.output
    shown = [line for line in command.lines if WHAT_THE_APPLICATION_MUST_FIX[code] in line]
    assert 1 <= len(shown) <= int(processes)
    assert "broken.py, line 3" in shown[0]
    assert command.output.count("Started worker") == (0 if processes == "1" else 2)


def test_an_application_with_a_bug_shows_its_traceback(application):
    (application.folder / "broken.py").write_text("settings = {}\nsettings['DATABASE']\n")
    command = application.start("broken:worker")
    assert command.ended() == 1
    assert "Traceback" in command.output
    assert "KeyError: 'DATABASE'" in command.output


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_missing_schema_is_reported_in_one_line(application, processes):
    path = application.folder / "newer.db"
    application.backend.__class__(path).ping()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("UPDATE scheduler_schema_version SET version = version + 1000")
    (application.folder / "newer.py").write_text(
        "from app import *\nworker = Worker(SqliteBackend(folder / 'newer.db'), config)\n"
    )
    command = application.start("newer:worker", "--processes", processes)
    assert command.ended() == 2, command.output
    assert "Traceback" not in command.output
    assert len([line for line in command.lines if "SchemaMismatch" in line]) <= 3


def test_options_are_checked(application):
    assert application.start("app:worker", "--threads", "0").ended() == 2
    assert application.start("app:worker", "--queues", "").ended() == 2
    assert application.start("app:worker", "--health-port", "70000").ended() == 2
    assert application.start("app:worker", "--max-memory", "nan").ended() == 2
    assert application.start("app:worker", "--max-silence", "inf").ended() == 2
    command = application.start("app:worker", "--health-port", "0", "--health-host", "é" * 70)
    assert command.ended() == 2
    assert "Traceback" not in command.output


def test_options_can_be_set_by_the_environment(application):
    application.producer.enqueue("say", queue="other")
    command = application.start("app:worker", SCHEDULER_WORKER_BURST="1", SCHEDULER_WORKER_QUEUES="other, more")
    assert command.ended() == 0
    assert "ran" in command.output


BY_ENVIRONMENT = {
    "processes": ("2", 2),
    "threads": ("3", 3),
    "queues": ("a, b", ("a", "b")),
    "worker_id": ("w1", "w1"),
    "grace": ("7.5", 7.5),
    "burst": ("1", True),
    "max_jobs": ("5", 5),
    "max_memory": ("512", 512.0),
    "max_silence": ("9", 9.0),
    "watch": (f"{os.curdir}{os.pathsep}{os.pardir}", (os.curdir, os.pardir)),
    "log_format": ("json", "json"),
    "log_level": ("DEBUG", "DEBUG"),
    "health_host": ("0.0.0.0", "0.0.0.0"),  # noqa: S104 - nothing listens there
    "health_port": ("8080", 8080),
    "metrics": ("true", True),
}


def test_every_option_can_be_set_by_the_environment(monkeypatch):
    seen = []
    monkeypatch.setattr(launch, "launch", lambda options: seen.append(options) or 0)
    for name, (text, _) in BY_ENVIRONMENT.items():
        monkeypatch.setenv(f"SCHEDULER_WORKER_{name.upper()}", text)
    monkeypatch.setattr(sys, "argv", ["scheduler", "worker", "app:worker"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    shown = dataclasses.asdict(seen[0])
    assert shown.pop("target") == "app:worker"
    assert shown == {name: value for name, (_, value) in BY_ENVIRONMENT.items()}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_lets_running_jobs_finish_and_gives_the_others_back(application, number):
    for _ in range(4):
        application.producer.enqueue("wait")
    command = application.start("app:worker")
    command.expect("began", times=2)
    command.signal(number)
    command.expect("Stopping: running jobs may finish")
    wait_until(lambda: application.states() == {"leased": 2, "ready": 2})
    application.go()
    assert command.ended() == 0, command.output
    assert application.states() == {"ready": 2, "succeeded": 2}
    assert all(job.attempts == 0 for job in application.backend.list("default", "ready").jobs)


def test_a_second_signal_ends_the_process_at_once(application):
    application.producer.enqueue("stuck", timeout=60)
    command = application.start("app:worker")
    command.expect("began")
    command.signal(signal.SIGTERM)
    command.expect("Stopping")
    threading.Event().wait(2 * SAME_SIGNAL)  # two signals within less time count as one
    command.signal(signal.SIGTERM)
    assert command.ended() == 128 + signal.SIGTERM


def test_a_handler_that_does_not_end_is_abandoned_and_shown_by_the_exit_status(application):
    application.producer.enqueue("stuck", timeout=60)
    command = application.start("app:worker", "--grace", "0.5")
    command.expect("began")
    command.signal(signal.SIGTERM)
    assert command.ended() == 4, command.output
    assert application.states() == {"leased": 1}


def test_a_hang_up_stops_in_order_and_is_no_first_of_two_signals(application):
    """A closed terminal or an ExecReload costs no running job."""
    application.producer.enqueue("wait", max_retries=0)
    command = application.start("app:worker")
    command.expect("began")
    command.signal(signal.SIGHUP)
    threading.Event().wait(2 * SAME_SIGNAL)
    command.signal(signal.SIGTERM)
    command.expect("Stopping: running jobs may finish")
    application.go()
    assert command.ended() == 0, command.output
    assert application.states() == {"succeeded": 1}


IMPORTS_LONG = """
import os, threading, time
os.write(1, b"importing\\n")
while not os.path.exists("imported"):
    time.sleep(0.01)
from app import worker
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2])
def test_a_signal_during_the_import_ends_what_has_not_begun(application, number):
    (application.folder / "long.py").write_text(IMPORTS_LONG)
    command = application.start("long:worker")
    command.expect("importing")
    command.signal(number)
    assert command.ended() == 0, command.output
    assert "Traceback" not in command.output


def test_stacks_are_dumped_during_the_import_too(application):
    (application.folder / "long.py").write_text(IMPORTS_LONG)
    command = application.start("long:worker", "--burst")
    command.expect("importing")
    command.signal(signal.SIGUSR1)
    command.expect("most recent call first")
    (application.folder / "imported").touch()
    assert command.ended() == 0, command.output


def test_a_queue_without_any_job_is_logged_once(application):
    application.producer.enqueue("say", delay=3600)
    command = application.start("app:worker", "--queues", "default,malis")
    command.expect("No jobs at the moment in queue malis; if you expect some, check the name")
    command.signal(signal.SIGTERM)
    assert command.ended() == 0
    assert command.output.count("No jobs at the moment") == 1


@pytest.mark.parametrize("processes", ["1", "2"])
@pytest.mark.parametrize(
    ("option", "advice"),
    [("--queues=*", "exact names"), ("--worker-id=a\tb", "control"), (f"--worker-id={'w' * 201}", "200")],
)
def test_what_no_worker_can_be_configured_with_is_refused_before_any_process_starts(
    application, processes, option, advice
):
    command = application.start("app:worker", "--processes", processes, option)
    assert command.ended() == 2
    assert len(command.lines) == 1
    assert advice in command.output


def test_a_drain_finishes_without_a_limit(application):
    for _ in range(3):
        application.producer.enqueue("wait")
    command = application.start("app:worker", "--grace", "0.1")
    command.expect("began", times=2)
    command.signal(signal.SIGUSR2)
    wait_until(lambda: application.states() == {"leased": 2, "ready": 1})
    application.go()
    assert command.ended() == 0, command.output
    assert application.states() == {"ready": 1, "succeeded": 2}


def test_stacks_are_dumped_on_request_and_the_worker_goes_on(application):
    application.producer.enqueue("wait")
    command = application.start("app:worker")
    command.expect("began")
    command.signal(signal.SIGUSR1)
    command.expect("most recent call first")
    application.go()
    command.expect("ended .* None")
    command.signal(signal.SIGTERM)
    assert command.ended() == 0


def test_stuck_threads_end_the_process_with_a_status_of_its_own(application):
    for _ in range(2):
        application.producer.enqueue("stuck", timeout=0.1, max_retries=0)
    command = application.start("app:worker")
    assert command.ended() == 3, command.output
    assert application.states() == {"dead": 2}


def test_max_jobs_ends_the_run_soon_after_so_many(application):
    """Not only at the next check a second later: thousands of jobs could run until then."""
    producer = application.producer
    producer.enqueue_many([producer.new_job("say") for _ in range(3_000)])
    command = application.start("app:worker", "--max-jobs", "10", "--threads", "1")
    assert command.ended() == 0
    assert "jobs have run" in command.output
    assert 10 <= len(re.findall("ran ", command.output)) < 1_500
    assert set(application.states()) == {"ready", "succeeded"}


def test_max_memory_ends_the_run(application):
    application.producer.enqueue("grow")
    command = application.start("app:worker", "--max-memory", "150")
    assert command.ended() == 0, command.output
    assert "MiB" in command.output


_DAMAGED = """
from app import *
from scheduler.errors import BackendError

class Damaged(SqliteBackend):
    def _stats(self, queues):
        if queues is None or "bad" in queues:
            raise BackendError("a record of queue bad is damaged")
        return super()._stats(queues)

worker.backend = Damaged(folder / "jobs.db", retention=Retention(succeeded=3600))
"""


@pytest.mark.parametrize("option", [["--burst"], ["--max-jobs", "3"], ["--max-memory", "1"]], ids=" ".join)
def test_a_queue_that_cannot_be_counted_switches_off_no_limit(application, option):
    (application.folder / "damaged.py").write_text(_DAMAGED)
    application.producer.enqueue_many([application.producer.new_job("say") for _ in range(3)])
    command = application.start("damaged:worker", *option, "--queues", "default,bad")
    assert command.ended() == 0, command.output
    assert command.output.count("cannot be checked at the start: a record of queue bad is damaged") == 1
    if option == ["--burst"]:
        assert application.states() == {"succeeded": 3}
        assert command.output.count("Queue bad is left out of --burst") == 1


def test_logs_are_json_lines_when_asked_for(application):
    """Also the lines that a signal handler writes without the logging module."""
    command = application.start("app:worker", "--log-format", "json", "--health-port", "0")
    command.expect("2 threads; job types die, grow, say, stuck, wait; SqliteBackend")
    command.signal(signal.SIGTERM)
    assert command.ended() == 0
    lines = [json.loads(line) for line in command.output.splitlines()]
    assert {"time", "level", "logger", "process", "thread", "message"} <= set(lines[-1])
    shown = [line["message"].partition(":")[0] for line in lines if line["level"] == "INFO"]
    assert [text.split()[0] for text in shown if not text.startswith("No jobs at the moment")] == [
        "Health", "Worker", "Stopping", "Stopped",
    ]  # fmt: skip


def test_health_is_served_on_a_port(application):
    command = application.start("app:worker", "--health-port", "0", "--metrics")
    (match,) = command.expect(r"(http://127\.0\.0\.1:\d+)/ready")
    url = match[1]
    wait_until(lambda: ask(f"{url}/ready")[0] == 200)
    assert ask(f"{url}/live")[0] == 200
    application.producer.enqueue("say")
    command.expect("ran")
    wait_until(lambda: 'event="settled.complete"} 1' in ask(f"{url}/metrics")[1])
    assert ask(f"{url}/else")[0] == 404
    with urllib.request.urlopen(urllib.request.Request(f"{url}/ready", method="HEAD"), timeout=30) as head:  # noqa: S310
        assert (head.status, head.read()) == (200, b"")


def test_health_is_served_on_addresses_of_any_kind():
    for host, shown in (("0.0.0.0", "127.0.0.1"), ("::1", "[::1]"), ("localhost", "localhost")):  # noqa: S104 - briefly
        options = WorkerOptions(target="app:worker", health_host=host, health_port=0)
        with serve_health(options, lambda: Status(live=True, ready=False)) as port:
            assert ask(f"http://{shown}:{port}/live")[0] == 200
            assert ask(f"http://{shown}:{port}/ready")[0] == 503


def test_metrics_are_served_only_when_asked_for(application):
    command = application.start("app:worker", "--health-port", "0")
    (match,) = command.expect(r"(http://127\.0\.0\.1:\d+)/ready")
    assert ask(f"{match[1]}/metrics")[0] == 404


@pytest.fixture
def service(tmp_path):
    """The socket of a service manager; `service(state)` waits until *state* is reported."""
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(address)
        listener.settimeout(30.0)

        def hears(state):
            while state not in listener.recv(4096).decode().splitlines():
                pass

        hears.address = address
        yield hears


@pytest.mark.parametrize("processes", ["1", "2"])
def test_systemd_is_notified(application, service, processes):
    command = application.start("app:worker", "--processes", processes, NOTIFY_SOCKET=service.address)
    service("READY=1")
    service("WATCHDOG=1")
    application.producer.enqueue("wait")
    command.expect("began")
    command.signal(signal.SIGTERM)
    service("STOPPING=1")
    application.go()
    assert command.ended() == 0, command.output


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_service_has_started_although_its_store_is_away(application, service, processes):
    """Else its manager would give it up and restart it for as long as the store is away."""
    application.backend.ping()
    with contextlib.closing(sqlite3.connect(application.folder / "jobs.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        command = application.start("app:worker", "--processes", processes, NOTIFY_SOCKET=service.address)
        service("READY=1")
        other.execute("ROLLBACK")
    application.producer.enqueue("say")
    command.expect("ran")


def test_a_store_that_cannot_be_used_has_a_status_of_its_own(application):
    assert application.start("app:closed").ended() == 5
    command = application.start("app:closed", "--processes", "2")
    assert command.ended() == 5
    assert "cannot run (exit status 5): stopping all" in command.output


@pytest.mark.parametrize("processes", ["1", "2"])
def test_without_standard_streams_it_works_as_ever(application, processes):
    """As daemons are started. No file of the store gets the number of stderr."""
    job = application.producer.enqueue("say").job.id
    command = [sys.executable, "-m", "scheduler.cli", "worker", "app:worker", "--burst", "--processes", processes]
    closed = ["/bin/sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command]
    assert subprocess.run(closed, cwd=application.folder, timeout=60, check=False).returncode == 0
    assert application.backend.get("default", [job])[job].attempts == 1
    assert application.states() == {"succeeded": 1}


def test_without_click_the_command_says_what_to_install(tmp_path):
    (tmp_path / "click.py").write_text("raise ModuleNotFoundError('No module named click', name='click')\n")
    ran = subprocess.run(
        [sys.executable, "-m", "scheduler.cli", "worker", "app:worker"],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 2
    assert "pip install 'reliable-scheduler[cli]'" in ran.stderr
