"""`scheduler worker` with several processes."""

from __future__ import annotations

import os
import re
import shutil
import signal
import threading
from pathlib import Path

import pytest

from programs import ask, wait_until
from scheduler.cli.signals import SAME_SIGNAL


def started(command, times):
    return [int(match[1]) for match in command.expect(r"Started worker \S+ as process (\d+)", times=times)]


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def test_jobs_are_run_by_all_processes_and_a_signal_ends_them(application):
    for _ in range(4):
        application.producer.enqueue("wait")
    command = application.start("app:worker", "--processes", "2")
    pids = {int(match[1]) for match in command.expect(r"began \S+ (\d+)", times=4)}
    assert pids == set(started(command, 2))
    command.signal(signal.SIGTERM)
    application.go()
    assert command.ended() == 0, command.output
    assert application.states() == {"succeeded": 4}


def test_the_environment_that_makes_a_supervisor_makes_none_of_its_children(application):
    for _ in range(4):
        application.producer.enqueue("say")
    command = application.start(
        "app:worker", SCHEDULER_WORKER_PROCESSES="2", SCHEDULER_WORKER_WATCH=".", SCHEDULER_WORKER_BURST="1"
    )
    assert command.ended() == 0, command.output
    assert command.output.count("Started worker") == 2
    assert application.states() == {"succeeded": 4}


def test_a_worker_id_names_all_processes(application):
    command = application.start("app:worker", "--processes", "2", "--worker-id", "w1")
    command.expect("Started worker w1:0.1")
    command.expect("Started worker w1:1.1")
    application.producer.enqueue("wait")
    command.expect("began")
    (job,) = application.backend.list("default", "leased").jobs
    assert job.lease_owner in {"w1:0.1", "w1:1.1"}
    application.go()
    command.signal(signal.SIGTERM)
    assert command.ended() == 0, command.output


def test_a_worker_id_that_leaves_no_room_for_several_is_refused_at_once(application):
    command = application.start("app:worker", "--processes", "2", "--worker-id", "w" * 197)
    assert command.ended() == 2
    assert "worker_id: must have at most 180 characters" in command.output
    assert "Started worker" not in command.output


@pytest.mark.parametrize("name", ["scheduler", "scheduler_backends"])
def test_a_module_of_the_working_folder_takes_no_place_of_the_librarys(application, name):
    (application.folder / f"{name}.py").write_text("raise SystemExit('the wrong module')\n")
    application.producer.enqueue("say")
    # The installed command, which does not look in the working folder before the library is imported.
    command = application.start("app:worker", "--processes", "2", "--burst", safe_path=True)
    assert command.ended() == 0, command.output
    assert "the wrong module" not in command.output
    assert application.states() == {"succeeded": 1}


def used(pid: int) -> float:
    """Seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_supervisor_sleeps_while_a_child_takes_its_time_to_stop(application):
    application.producer.enqueue("stuck", timeout=60)
    command = application.start("app:worker", "--processes", "2", "--grace", "20")
    command.expect("began")
    command.signal(signal.SIGTERM)
    command.expect("Stopped: ")  # the other one
    before = used(command.process.pid)
    threading.Event().wait(2.0)
    assert used(command.process.pid) - before < 0.2
    command.signal(signal.SIGTERM)
    assert command.ended() == 4, command.output


IMPORTS_LONG = """
import os, time
os.write(1, b"importing\\n")
while not os.path.exists("imported"):
    time.sleep(0.01)
from app import worker
"""


def test_children_that_still_import_are_killed_by_no_request_for_stacks(application):
    (application.folder / "long.py").write_text(IMPORTS_LONG)
    command = application.start("long:worker", "--processes", "2")
    command.expect("Started worker", times=2)
    command.signal(signal.SIGUSR1)  # most likely before they handle it: their interpreter is starting
    command.expect("most recent call first", times=2)
    (application.folder / "imported").touch()
    application.producer.enqueue("say")
    command.expect("ran")
    command.signal(signal.SIGTERM)
    assert command.ended() == 0, command.output
    assert "died" not in command.output


@pytest.mark.parametrize("number", [signal.SIGUSR2, signal.SIGTERM])
@pytest.mark.parametrize("sign", ["Started worker", "importing"])
def test_children_that_still_import_end_when_asked_to(application, number, sign):
    (application.folder / "long.py").write_text(IMPORTS_LONG)
    command = application.start("long:worker", "--processes", "2")
    command.expect(sign, times=2)
    command.signal(number)
    assert command.ended() == 0, command.output
    assert "died" not in command.output


def test_code_that_cannot_be_imported_any_more_stops_no_worker_that_runs(application):
    """For example during a deploy: only the slot of a crashed process stays empty until the code can be imported."""
    job = application.producer.enqueue("wait").job.id
    command = application.start("app:worker", "--processes", "2", "--threads", "1", LEASE="30")
    (match,) = command.expect(rf"began {job} (\d+)")
    (other,) = set(started(command, 2)) - {int(match[1])}
    threading.Event().wait(11.0)  # by then the supervisor counts the code as working
    source = application.folder / "app.py"
    good = source.read_text()
    source.write_text("import no_such_module\n")
    os.kill(other, signal.SIGKILL)
    command.expect(r"died \(exit status 2\); replaced")
    source.write_text(good)
    started(command, 4)
    application.go()
    command.expect(f"ended {job}")
    command.signal(signal.SIGTERM)
    assert command.ended() == 0, command.output


ORPHANS = """
import os, subprocess
from app import *

@worker.handler("orphan")
def _(job, ctx):
    subprocess.run(["/bin/sh", "-c", "(sleep 0.1; exit 0) & exit 0"])
    say("ran", job.id, os.getpid())
"""


UNSHARE = shutil.which("unshare")


@pytest.mark.skipif(os.getuid() != 0 or UNSHARE is None, reason="needs root and unshare")
def test_a_supervisor_that_is_process_1_reaps_orphans(application):
    (application.folder / "orphans.py").write_text(ORPHANS)
    for _ in range(10):
        application.producer.enqueue("orphan")
    container = (UNSHARE, "--fork", "--pid", "--mount-proc", "--kill-child")
    command = application.start("orphans:worker", "--processes", "2", before=container)
    command.expect("ran", times=10)
    (first,) = children(command.process.pid)  # process 1 of its container
    wait_until(lambda: len(children(first)) == 2)
    os.kill(first, signal.SIGTERM)
    assert command.ended() == 0, command.output


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_burst_with_several_processes_ends_when_all_are_done(application):
    for _ in range(30):
        application.producer.enqueue("say")
    command = application.start("app:worker", "--processes", "2", "--burst")
    assert command.ended() == 0, command.output
    assert application.states() == {"succeeded": 30}


def test_a_backend_in_one_process_is_refused(application):
    command = application.start("app:in_memory", "--processes", "2")
    assert command.ended() == 2
    assert "each process would have its own jobs" in command.output


def test_a_killed_child_is_replaced_and_what_it_held_is_logged_and_run(application):
    job = application.producer.enqueue("wait").job.id
    command = application.start("app:worker", "--processes", "2", LEASE="10")  # still held when the next one starts
    (match,) = command.expect(rf"began {job} (\d+)")
    os.kill(int(match[1]), signal.SIGKILL)
    command.expect(r"died \(killed by signal 9\); replaced")
    command.expect(rf"The crashed worker \S+ held job {job} \(wait\)")
    application.go()
    command.expect(f"ended {job}")
    wait_until(lambda: application.states() == {"succeeded": 1})
    assert application.backend.get("default", [job])[job].crashes == 1
    command.signal(signal.SIGTERM)
    assert command.ended() == 0


def test_what_a_killed_child_held_is_logged_although_its_first_replacement_cannot_start(application):
    job = application.producer.enqueue("wait").job.id
    command = application.start("app:worker", "--processes", "2", LEASE="20")
    (match,) = command.expect(rf"began {job} (\d+)")
    source = application.folder / "app.py"
    good = source.read_text()
    source.write_text("raise MemoryError\n")
    os.kill(int(match[1]), signal.SIGKILL)
    command.expect(r"died \(exit status 1\); replaced")
    source.write_text(good)
    command.expect(rf"The crashed worker \S+ held job {job} \(wait\)")


def test_a_job_that_kills_its_process_ends_in_dead_and_others_run(application):
    """Guarantee 12."""
    poison = application.producer.enqueue("die", max_retries=2).job.id
    other = application.producer.enqueue("say", max_retries=5).job.id
    command = application.start("app:worker", "--processes", "2", "--threads", "1")
    wait_until(lambda: application.states() == {"dead": 1, "succeeded": 1})
    job = application.backend.get("default", [poison])[poison]
    assert job.attempts == 3
    assert job.last_error.kind == "LeaseExpired"
    command.signal(signal.SIGTERM)
    assert command.ended() == 0
    assert len(re.findall(f"dying {poison}", command.output)) == 3
    assert other in command.output


def test_a_child_whose_threads_are_stuck_is_replaced(application):
    for _ in range(2):
        application.producer.enqueue("stuck", timeout=0.1, max_retries=0)
    command = application.start("app:worker", "--processes", "2", "--threads", "1")
    command.expect(r"died \(exit status 3\)")
    application.producer.enqueue("say")
    command.expect("ran")
    command.signal(signal.SIGTERM)
    assert command.ended() == 0, command.output


def test_hang_up_replaces_every_child_in_order(application):
    command = application.start("app:worker", "--processes", "2")
    first = started(command, 2)
    application.producer.enqueue("say")
    command.expect("ran")
    command.signal(signal.SIGHUP)
    assert not set(started(command, 4)[2:]) & set(first)
    application.producer.enqueue("say")
    command.expect("ran", times=2)
    command.signal(signal.SIGTERM)
    assert command.ended() == 0


@pytest.mark.parametrize("then", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_after_a_hang_up_ends_no_child_at_once(application, then):
    """Each is asked to stop once: the same signal again would end it, and the jobs that it may still finish."""
    application.producer.enqueue("wait", max_retries=0)
    command = application.start("app:worker", "--processes", "2")
    command.expect("began")
    command.signal(signal.SIGHUP)
    command.expect("Stopping: running jobs may finish")
    threading.Event().wait(2 * SAME_SIGNAL)
    command.signal(then)
    threading.Event().wait(2 * SAME_SIGNAL)
    application.go()
    command.expect("ended .* None")
    if then != signal.SIGTERM:
        command.signal(signal.SIGTERM)
    assert command.ended() == 0, command.output
    assert "died" not in command.output
    assert application.states() == {"succeeded": 1}


def test_children_end_when_their_supervisor_is_killed(application):
    for _ in range(2):
        application.producer.enqueue("say")
    command = application.start("app:worker", "--processes", "2")
    children = started(command, 2)
    command.expect("ran", times=2)
    command.process.kill()
    wait_until(lambda: not any(map(alive, children)))


def test_a_second_signal_kills_children_that_do_not_end(application):
    application.producer.enqueue("stuck", timeout=60)
    command = application.start("app:worker", "--processes", "2")
    command.expect("began")
    command.signal(signal.SIGINT)
    command.expect("Stopping")
    threading.Event().wait(2 * SAME_SIGNAL)  # two signals within less time count as one
    command.signal(signal.SIGINT)
    assert command.ended() == 4
    assert not any(map(alive, started(command, 2)))


def test_health_of_all_processes_is_served_together(application):
    command = application.start("app:worker", "--processes", "2", "--health-port", "0", "--metrics")
    (match,) = command.expect(r"(http://127\.0\.0\.1:\d+)/ready")
    wait_until(lambda: ask(f"{match[1]}/ready")[0] == 200)
    for _ in range(10):
        application.producer.enqueue("say")
    wait_until(lambda: 'event="settled.complete"} 10' in ask(f"{match[1]}/metrics")[1])


def test_a_changed_file_replaces_the_workers(application):
    pytest.importorskip("watchfiles")
    command = application.start("app:worker", "--watch", ".")
    (first,) = started(command, 1)
    application.producer.enqueue("say")
    command.expect("ran")
    source = application.folder / "app.py"
    source.write_text(source.read_text().replace('say("ran"', 'say("newly ran"'))
    assert first not in started(command, 2)[1:]
    application.producer.enqueue("say")
    command.expect("newly ran")
    # A file with an error, and then one without an application, are no reason to end: somebody edits them.
    good = source.read_text()
    source.write_text("nothing = here +\n")
    command.expect(r"died \(exit status 2\)", times=3)  # by now it is tried again after a pause
    source.write_text("nothing = 'here'\n")
    command.expect("no attribute")
    source.write_text(good)
    application.producer.enqueue("say")
    command.expect("newly ran", times=2)
    command.signal(signal.SIGTERM)
    assert command.ended() == 0
