"""
The pytest plugin: `--scheduler-backend URL`, repeatable, runs the conformance suite over backends named by URL::

    pytest --pyargs scheduler.testing.contract --scheduler-backend redis://localhost:6379/0

Loaded in every pytest run where this library is installed, so it imports nothing of it.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest

_FIXTURE = "scheduler_backend_url"
_NOT_OFFERED = "scheduler_not_offered"
_told_by_workers: set[str] = set()


class _Url(str):
    """A URL that shows no password where pytest shows a failing test's arguments."""

    __slots__ = ()

    def __repr__(self) -> str:
        from scheduler.urls import without_password  # noqa: PLC0415 - see the module's text

        return repr(without_password(str(self)))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("scheduler").addoption(
        "--scheduler-backend",
        action="append",
        default=[],
        metavar="URL",
        help="run the tests that ask for the fixture scheduler_backend_url, such as those of "
        "`--pyargs scheduler.testing.contract`, over the backend of this URL; may be given several times",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test per URL; without any, one that is skipped and says why."""
    if _FIXTURE in metafunc.fixturenames:
        urls = [_Url(url) for url in metafunc.config.getoption("--scheduler-backend")]
        missing = pytest.param("", marks=pytest.mark.skip("no backend to test: give --scheduler-backend URL"))
        # Named by number: a URL may hold a password, and test names reach logs.
        names = [f"{url.partition(':')[0]}{number}" for number, url in enumerate(urls, 1)]
        metafunc.parametrize(_FIXTURE, urls or [missing], ids=names or ["none"], scope="session")


def _not_offered() -> list[str]:
    suite = sys.modules.get("scheduler.testing.contract.offered")  # not loaded where none of its tests were collected
    return suite.report() if suite else []


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send the controlling process of pytest-xdist what this worker did not collect."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output[_NOT_OFFERED] = _not_offered()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what a worker of pytest-xdist sent; one that crashed has sent nothing."""
    _told_by_workers.update(getattr(node, "workeroutput", {}).get(_NOT_OFFERED, ()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List what the backends under test do not offer: tests of the suite that were not collected."""
    if lines := sorted({*_not_offered(), *_told_by_workers}):
        terminalreporter.section("not offered, so not collected")
        for line in lines:
            terminalreporter.line(line)
