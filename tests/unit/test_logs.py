"""The logger that never raises."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor

import pytest

from scheduler.logs import GuardedLogger


class Failing(logging.Handler):
    """A log handler of the user that raises."""

    def __init__(self, error: type[BaseException]) -> None:
        super().__init__()
        self.error = error
        self.calls = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.calls += 1
        raise self.error


def failing(error: type[BaseException]) -> tuple[GuardedLogger, Failing]:
    logger = logging.Logger("failing")  # noqa: LOG001 - one that no other test sees
    handler = Failing(error)
    logger.addHandler(handler)
    return GuardedLogger(logger), handler


class HomeMade(BaseException):
    pass


@pytest.mark.parametrize("error", [ValueError, RecursionError, SystemExit, GeneratorExit, HomeMade])
@pytest.mark.parametrize("method", ["warning", "error", "exception", "critical"])
def test_whatever_a_handler_raises_is_dropped(error: type[BaseException], method: str) -> None:
    logger, handler = failing(error)
    getattr(logger, method)("text")
    assert handler.calls == 1


def test_a_filter_may_fail_as_well(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(_: logging.LogRecord) -> bool:
        raise ValueError

    logger = logging.getLogger("filtered")
    logger.addFilter(refuse)
    GuardedLogger(logger).warning("text")
    logger.removeFilter(refuse)
    assert caplog.messages == []


def test_a_ctrl_c_on_the_main_thread_passes() -> None:
    """It may be a real one that arrived while the handler ran."""
    logger, _ = failing(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        logger.warning("text")


def test_no_ctrl_c_arrives_on_another_thread() -> None:
    logger, handler = failing(KeyboardInterrupt)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(logger.warning, "text").result(timeout=30) is None
    assert handler.calls == 1


def test_records_are_passed_on_with_the_line_that_logs(caplog: pytest.LogCaptureFixture) -> None:
    logger = GuardedLogger(logging.getLogger("passed"))
    with caplog.at_level(logging.INFO, "passed"):
        logger.debug("not asked for")
        logger.info("%d of %s", 2, "three")
        try:
            raise ValueError("the reason")
        except ValueError:
            logger.exception("failed")
    told, failed = caplog.records
    assert (told.getMessage(), told.levelname, told.name) == ("2 of three", "INFO", "passed")
    assert {told.funcName, failed.funcName} == {"test_records_are_passed_on_with_the_line_that_logs"}
    assert failed.exc_info
    assert str(failed.exc_info[1]) == "the reason"


def test_a_message_that_cannot_be_formatted_does_no_harm(capsys: pytest.CaptureFixture[str]) -> None:
    class Broken:
        def __str__(self) -> str:
            raise ValueError

    logger = logging.Logger("unformatted")  # noqa: LOG001 - one that no other test sees
    logger.addHandler(logging.StreamHandler())
    GuardedLogger(logger).warning("%s", Broken())
    assert "Logging error" in capsys.readouterr().err  # logging's own report, to stderr
