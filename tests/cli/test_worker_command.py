"""`scheduler worker` with one process."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading

import pytest

from programs import ask, wait_until
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
    ],
)
def test_a_wrong_target_is_told_in_one_line(application, target, advice):
    command = application.start(target)
    assert command.ended() == 2
    assert advice in command.output
    assert "Traceback" not in command.output


def test_an_application_that_fails_to_import_shows_its_traceback(application):
    (application.folder / "broken.py").write_text("import no_such_package_of_the_application\n")
    command = application.start("broken:worker")
    assert command.ended() == 1
    assert "Traceback" in command.output
    assert "no_such_package_of_the_application" in command.output


def test_options_are_checked(application):
    assert application.start("app:worker", "--threads", "0").ended() == 2
    assert application.start("app:worker", "--queues", "").ended() == 2
    assert application.start("app:worker", "--health-port", "70000").ended() == 2


def test_every_option_can_be_set_by_the_environment(application):
    application.producer.enqueue("say", queue="other")
    command = application.start("app:worker", SCHEDULER_WORKER_BURST="1", SCHEDULER_WORKER_QUEUES="other, more")
    assert command.ended() == 0
    assert "ran" in command.output


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
    threading.Event().wait(2 * SAME_SIGNAL)  # one that comes sooner counts as the same wish
    command.signal(signal.SIGTERM)
    assert command.ended() == 128 + signal.SIGTERM


def test_a_handler_that_does_not_end_is_abandoned_and_told_by_the_exit_status(application):
    application.producer.enqueue("stuck", timeout=60)
    command = application.start("app:worker", "--grace", "0.5")
    command.expect("began")
    command.signal(signal.SIGTERM)
    assert command.ended() == 4, command.output
    assert application.states() == {"leased": 1}


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


def test_max_jobs_ends_the_run(application):
    for _ in range(50):
        application.producer.enqueue("say")
    command = application.start("app:worker", "--max-jobs", "10", "--threads", "1")
    assert command.ended() == 0
    assert "jobs have run" in command.output


def test_max_memory_ends_the_run(application):
    application.producer.enqueue("grow")
    command = application.start("app:worker", "--max-memory", "150")
    assert command.ended() == 0, command.output
    assert "MiB" in command.output


def test_logs_are_json_lines_when_asked_for(application):
    command = application.start("app:worker", "--burst", "--log-format", "json")
    assert command.ended() == 0
    lines = [json.loads(line) for line in command.output.splitlines()]
    assert {"time", "level", "logger", "process", "thread", "message"} <= set(lines[-1])
    assert lines[-1]["message"].startswith("Stopped")


def test_health_is_told_by_file_and_by_port(application):
    command = application.start("app:worker", "--health-file", "health.json", "--health-port", "0", "--metrics")
    (match,) = command.expect(r"(http://127\.0\.0\.1:\d+)/ready")
    url = match[1]
    wait_until(lambda: ask(f"{url}/ready")[0] == 200)
    assert ask(f"{url}/live")[0] == 200
    application.producer.enqueue("say")
    command.expect("ran")
    wait_until(lambda: 'event="settled.complete"} 1' in ask(f"{url}/metrics")[1])
    assert ask(f"{url}/else")[0] == 404
    wait_until((application.folder / "health.json").exists)
    wait_until(lambda: json.loads((application.folder / "health.json").read_text())["ready"])


def test_metrics_are_served_only_when_asked_for(application):
    command = application.start("app:worker", "--health-port", "0")
    (match,) = command.expect(r"(http://127\.0\.0\.1:\d+)/ready")
    assert ask(f"{match[1]}/metrics")[0] == 404


def test_systemd_is_told(application, tmp_path):
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(address)
        listener.settimeout(30.0)
        application.start("app:worker", NOTIFY_SOCKET=address)
        told = listener.recv(4096)
        while b"READY=1" not in told:
            told += listener.recv(4096)
        while b"WATCHDOG=1" not in told:
            told += listener.recv(4096)


def test_without_click_the_command_says_what_to_install(tmp_path):
    (tmp_path / "click.py").write_text("raise ModuleNotFoundError('No module named click', name='click')\n")
    ran = subprocess.run(
        [sys.executable, "-m", "scheduler.cli", "worker", "app:worker"],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert "pip install 'reliable-scheduler[cli]'" in ran.stderr
