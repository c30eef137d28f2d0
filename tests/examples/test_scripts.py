"""The script for cron, and the programs of a company that has its own package."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from programs import wait_until

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def nightly(tmp_path):
    def run(night: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                sys.executable,
                str(EXAMPLES / "script_nightly.py"),
                "--night",
                night,
                "--backend",
                f"sqlite:///{tmp_path / 'nightly.db'}?retain_succeeded=3600",
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return run


def test_a_night_is_reported_once_however_often_it_is_started(nightly, tmp_path):
    for night in ("2030-01-31", "2030-01-31", "2030-02-01"):
        ran = nightly(night)
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout.count("succeeded") == 4
    reports = sorted(path.read_text() for path in (tmp_path / "reports").iterdir())
    assert len(reports) == 8
    assert all("attempt 1" in report for report in reports)


def test_a_report_that_cannot_be_written_is_told_by_the_exit_code(nightly, tmp_path):
    (tmp_path / "reports" / "2030-01-31-stock.txt").mkdir(parents=True)  # in its way
    ran = nightly("2030-01-31")
    assert ran.returncode == 1
    assert ran.stdout.count("succeeded") == 3
    assert "IsADirectoryError" in ran.stdout


def test_a_company_runs_its_jobs_by_its_own_package(example, jobs_url):
    billing = example("shared_package", "billing.py", ACME_JOBS=jobs_url)
    assert billing.ended() == 0, billing.output
    crew = example("shared_package", "-m", "scheduler.cli", "worker", "crew:worker", ACME_JOBS=jobs_url)
    crew.expect("invoice 1001 is mailed to customer 7")
    crew.expect("invoice 1002 is mailed to customer 8")
    crew.expect("the cellar is counted")
    crew.signal(signal.SIGTERM)
    assert crew.ended() == 0, crew.output
    wait_until(lambda: "Stopped: 3 outcomes" in crew.output)
