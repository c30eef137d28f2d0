"""The first thing that a newcomer runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "examples" / "quickstart.py"


def test_the_quick_start_sends_each_mail_once_and_ends():
    """The mail due now is sent first; the mail that fails twice is sent at its third attempt."""
    done = subprocess.run(
        [sys.executable, "-W", "error", QUICKSTART], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "attempt 1: mail to ada@example.org"
    assert sorted(lines[1:]) == ["attempt 1: mail to bob@example.org", "attempt 3: mail to eve@example.org"]


def test_the_quick_start_is_short_and_stands_in_the_readme():
    """At most 25 lines, and the README shows the very file that was just run."""
    program = QUICKSTART.read_text()
    assert len(program.splitlines()) <= 25
    assert f"```python\n{program}```\n" in (ROOT / "README.md").read_text()
