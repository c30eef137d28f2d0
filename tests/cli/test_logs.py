"""Log lines are valid, complete and harmless, whatever is logged."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from scheduler.cli.logs import JsonFormatter, TextFormatter

FORMATTERS: list[Callable[[], logging.Formatter]] = [TextFormatter, JsonFormatter]
UNSAFE = "\x1b[31m \u202e \u2028 \x85 \ud800 \x00"


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError

    __str__ = __repr__


def a_record(message: str = "text", *arguments: object, raised: BaseException | None = None, **extra: object):
    exc_info = (type(raised), raised, raised.__traceback__) if raised else None
    logger = logging.Logger("app")  # noqa: LOG001 - one that no other test sees
    record = logger.makeRecord("app", logging.WARNING, "", 0, "", arguments, exc_info, extra=extra)
    record.msg = message
    return record


def read(**extra: object):
    line = JsonFormatter().format(a_record(**extra))
    return json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


@pytest.mark.parametrize("formatter", FORMATTERS)
def test_a_line_shows_when_in_utc_which_process_and_where(formatter):
    record = a_record("number %d", 7)
    line = formatter().format(record)
    assert all(part in line for part in ("number 7", "WARNING", str(record.process), "MainThread", "app"))
    moment = line.split()[0] if formatter is TextFormatter else json.loads(line)["time"]
    assert datetime.fromisoformat(moment).utcoffset() == timedelta(0)


@pytest.mark.parametrize("formatter", FORMATTERS)
@pytest.mark.parametrize("where", ["message", "argument", "error"])
def test_nothing_that_is_logged_ends_a_line_unseen_or_steers_a_terminal(formatter, where):
    made = {
        "message": lambda: a_record(UNSAFE),
        "argument": lambda: a_record("%s", UNSAFE),
        "error": lambda: a_record("text", raised=ValueError(UNSAFE)),
    }
    line = formatter().format(made[where]())
    assert line.replace("\n", "").isprintable()
    assert "\\u202e" in line
    if formatter is JsonFormatter:
        assert UNSAFE in json.loads(line)["error" if where == "error" else "message"]


def test_a_traceback_keeps_its_lines_below_the_text():
    try:
        raise ValueError("the reason")
    except ValueError as error:
        lines = TextFormatter().format(a_record("failed", raised=error)).splitlines()
    assert lines[0].endswith("app: failed")
    assert lines[-1] == "ValueError: the reason"


def test_extras_are_fields_and_take_the_place_of_none_of_ours():
    line = read(time="never", level="none", error="mine", job_id="7")
    assert datetime.fromisoformat(line["time"])
    assert line["level"] == "WARNING"
    assert line["job_id"] == "7"
    assert {line["extra.time"], line["extra.level"], line["extra.error"]} == {"never", "none", "mine"}


@pytest.mark.parametrize("value", [math.nan, math.inf, {"ratio": math.nan}, {(1, 2): 3}, [object()], {1, 2}, UNSAFE])
def test_a_line_is_json_whatever_an_extra_holds(value):
    assert read(value=value, other=1)["other"] == 1


def test_a_circle_and_what_cannot_be_shown_are_no_reason_to_lose_a_line():
    circle: list[object] = []
    circle.append(circle)
    assert read(value=circle, other=1)["other"] == 1
    assert read(value=Unshowable(), other=1)["other"] == 1


@pytest.mark.parametrize("formatter", FORMATTERS)
@pytest.mark.parametrize("arguments", [(), ("many", "more"), (Unshowable(),)])
def test_arguments_that_do_not_fit_are_no_reason_to_lose_a_line(formatter, arguments):
    assert "number %d" in formatter().format(a_record("number %d", *arguments))


@pytest.mark.parametrize("formatter", FORMATTERS)
def test_a_line_is_bounded(formatter):
    line = formatter().format(a_record("x" * 1_000_000, raised=ValueError("y" * 1_000_000)))
    assert len(line) < 200_000
