"""
The pytest plugin with the option `--scheduler-backend URL`, which runs the conformance suite on that backend::

    pytest --pyargs scheduler.testing.contract --scheduler-backend redis://localhost:6379/0

The option may be given several times. pytest loads this plugin in every run in an environment with this library, so
it does not import the rest of the library.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest

_FIXTURE = "scheduler_backend_url"
_NOT_OFFERED = "scheduler_not_offered"
_sent_by_workers: set[str] = set()


class _Url(str):
    """A URL whose repr hides the password, since pytest shows the arguments of failing tests."""

    __slots__ = ()

    def __repr__(self) -> str:
        from scheduler.urls import without_password  # noqa: PLC0415 - see the module's docstring

        return repr(without_password(str(self)))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option `--scheduler-backend`."""
    parser.getgroup("scheduler").addoption(
        "--scheduler-backend",
        action="append",
        default=[],
        metavar="URL",
        help="run the tests that ask for the fixture scheduler_backend_url, such as those of "
        "`--pyargs scheduler.testing.contract`, over the backend of this URL; may be given several times",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test per URL, or a skipped one with the reason if no URL is given."""
    if _FIXTURE in metafunc.fixturenames:
        urls = [_Url(url) for url in metafunc.config.getoption("--scheduler-backend")]
        missing = pytest.param("", marks=pytest.mark.skip("no backend to test: give --scheduler-backend URL"))
        # Numbers, since a URL may hold a password and test names appear in logs.
        names = [f"{url.partition(':')[0]}{number}" for number, url in enumerate(urls, 1)]
        metafunc.parametrize(_FIXTURE, urls or [missing], ids=names or ["none"], scope="session")


def _not_offered() -> list[str]:
    suite = sys.modules.get("scheduler.testing.contract.offered")  # not loaded if none of its tests were collected
    return suite.report() if suite else []


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send what this worker of pytest-xdist did not collect to the controlling process."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output[_NOT_OFFERED] = _not_offered()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Read what a worker of pytest-xdist has sent. One that crashed has sent nothing."""
    _sent_by_workers.update(getattr(node, "workeroutput", {}).get(_NOT_OFFERED, ()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the abilities that the backends under test lack, whose tests were therefore not collected."""
    if lines := sorted({*_not_offered(), *_sent_by_workers}):
        terminalreporter.section("not offered, so not collected")
        for line in lines:
            terminalreporter.line(line)
