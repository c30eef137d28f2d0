"""Programs that tests start end with the tests, in whatever way these end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from programs import Program, wait_until
from worker.scripts import run_python

STARTS_ONE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from programs import Program
program = Program([sys.executable, "-c", "import time; print(1, flush=True); time.sleep(600)"], Path.cwd())
program.expect(r"\\d+")
print(program.process.pid, flush=True)
program.process.wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_a_program_dies_with_the_test_run_that_is_killed(tmp_path):
    command = [sys.executable, "-c", STARTS_ONE, str(Path(__file__).parent)]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as run:
        program = int(run.stdout.readline())
        os.kill(program, 0)
        run.send_signal(signal.SIGKILL)
        run.wait(30)
    wait_until(lambda: gone(program))


def gone(pid):
    """Or dead, where the first process of a container reaps nobody."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_program_is_the_process_that_was_started(tmp_path):
    program = Program([sys.executable, "-c", "import os; print(os.getpid(), os.getsid(0))"], tmp_path)
    assert program.ended() == 0
    assert program.output.split() == [str(program.process.pid)] * 2
    program.kill()


SHOWS_SIGINT = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"


def test_programs_obey_ctrl_c_although_the_suite_was_started_in_the_background(tmp_path):
    """A shell without job control starts such a suite with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        program = Program([sys.executable, "-c", SHOWS_SIGINT], tmp_path)
        script = run_python(SHOWS_SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert program.ended() == 0
    assert program.output.strip() == script == "True"
    program.kill()
