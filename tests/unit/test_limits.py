"""The limits of names, numbers, times and texts."""

from __future__ import annotations

import enum
import math
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler import limits
from scheduler.errors import ConfigError, InvalidJob
from scheduler.limits import (
    MAX_COUNT,
    MAX_DELAY,
    MAX_METADATA,
    MAX_NAME,
    check_count,
    check_metadata,
    check_moment,
    check_name,
    check_number,
    clean_text,
)


class Queue(str, enum.Enum):  # noqa: UP042 - the old spelling is what formats as "Queue.MAIL"
    MAIL = "mail"


def test_the_limits_are_those_that_are_promised() -> None:
    """The documentation names them, and stores may have sized their columns by them."""
    assert (limits.MAX_NAME, limits.MAX_METADATA, limits.MAX_BATCH) == (200, 8_192, 10_000)
    assert (limits.MAX_ERRORS, limits.MAX_ERROR_KIND) == (10, 200)
    assert (limits.MAX_ERROR_MESSAGE, limits.MAX_ERROR_TRACEBACK) == (2_000, 8_000)
    assert (limits.MAX_COUNT, limits.MAX_DELAY) == (1_000_000, 3_155_760_000.0)


# Names


@pytest.mark.parametrize("name", ["a", "x" * MAX_NAME, "a:b", "*", "{x}", "%s", "'; --", "ä/日本", " ", "🦉"])
def test_a_name_may_hold_anything_printable(name: str) -> None:
    assert check_name("queue", name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "x" * (MAX_NAME + 1),
        "a\nb",
        "a\x00",
        "\x1f",
        "\x7f",
        "\x85",
        "\x9f",
        "\ud800",
        "a\udfff",
        b"a",
        None,
        1,
        True,
        ["a"],
    ],
)
def test_a_bad_name_is_refused_and_named(name: object) -> None:
    for kind in (InvalidJob, ConfigError):
        with pytest.raises(kind) as caught:
            check_name("queue", name, kind)
        assert caught.value.field == "queue"


@given(st.text(max_size=250))
def test_a_name_is_refused_exactly_by_the_rule(text: str) -> None:
    lawful = 1 <= len(text) <= 200 and not any(
        ord(char) < 0x20 or 0x7F <= ord(char) <= 0x9F or 0xD800 <= ord(char) <= 0xDFFF for char in text
    )
    if lawful:
        assert check_name("id", text) == text
        text.encode()  # any store can carry it
    else:
        with pytest.raises(InvalidJob):
            check_name("id", text)


def test_a_member_of_a_text_enum_becomes_its_text() -> None:
    """Otherwise a key made of it would read "Queue.MAIL" on one store and "mail" on another."""
    name = check_name("queue", Queue.MAIL)
    assert (type(name), f"{name}") == (str, "mail")
    assert [(f"{key}", f"{text}") for key, text in check_metadata({Queue.MAIL: Queue.MAIL}).items()] == [
        ("mail", "mail")
    ]


# Numbers


@pytest.mark.parametrize("value", [0, 0.0, 1, 1.5, -0.0, MAX_DELAY, 5e-324])
def test_a_number_is_answered_as_float(value: float) -> None:
    answer = check_number("delay", value)
    assert type(answer) is float
    assert answer == value


@pytest.mark.parametrize(
    "value",
    [
        -1,
        -1e-300,
        -(10**9),
        10**12,
        1e30,
        10**400,
        -(10**400),
        math.nan,
        math.inf,
        -math.inf,
        True,
        False,
        "1",
        b"1",
        None,
        1j,
        Decimal(1),
        Fraction(1, 2),
        timedelta(seconds=1),
        math.nextafter(MAX_DELAY, math.inf),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_what_is_no_number_within_bounds_is_refused_and_named(value: object) -> None:
    """Also an int beyond the range of floats, for which math.isnan raises."""
    with pytest.raises(ConfigError) as caught:
        check_number("delay", value)
    assert caught.value.field == "delay"


def test_bounds_are_open_or_closed_as_said() -> None:
    assert check_number("x", 2, at_least=2, at_most=3) == 2.0
    assert check_number("x", 3, at_least=2, at_most=3) == 3.0
    with pytest.raises(ConfigError, match="above 0 and at most 3"):
        check_number("x", 0, above=0.0, at_most=3)
    with pytest.raises(ConfigError, match="at least 2 and at most 3"):
        check_number("x", 1, at_least=2, at_most=3)
    with pytest.raises(InvalidJob):
        check_number("x", -1, InvalidJob)


@given(st.one_of(st.integers(), st.floats()))
def test_a_number_is_finite_and_within_bounds_or_refused(value: float) -> None:
    try:
        answer = check_number("x", value, at_least=-5, at_most=5)
    except ConfigError:
        assert not -5 <= value <= 5
    else:
        assert -5 <= answer <= 5


@pytest.mark.parametrize("value", [0, 1, MAX_COUNT])
def test_a_whole_number_passes(value: int) -> None:
    assert check_count("max_retries", value) == value


@pytest.mark.parametrize("value", [-1, MAX_COUNT + 1, 10**400, True, False, 1.0, math.nan, "1", None, Decimal(1)])
def test_what_is_no_count_is_refused_and_named(value: object) -> None:
    with pytest.raises(InvalidJob) as caught:
        check_count("max_retries", value, InvalidJob)
    assert caught.value.field == "max_retries"


def test_a_member_of_a_number_enum_becomes_its_number() -> None:
    answer = check_count("priority", enum.IntEnum("P", {"A": 2}).A)  # type: ignore[attr-defined]  # made on the spot
    assert (type(answer), answer) == (int, 2)


# Moments


class Nowhere(tzinfo):
    """A zone that does not know its offset: such a datetime counts as naive."""

    def utcoffset(self, _: datetime | None) -> None:
        return None

    dst = tzname = utcoffset

    def __repr__(self) -> str:  # without the address, since parallel test runs compare their names
        return "Nowhere()"


@pytest.mark.parametrize(
    "zone", [UTC, timezone(timedelta(hours=5, minutes=45)), ZoneInfo("America/New_York"), ZoneInfo("Asia/Tokyo")]
)
def test_one_instant_is_one_value_whatever_its_zone(zone: tzinfo) -> None:
    instant = datetime(2030, 7, 1, 12, 0, 0, 123_456, tzinfo=UTC)
    answer = check_moment("run_at", instant.astimezone(zone))
    assert answer.isoformat() == "2030-07-01T12:00:00.123456+00:00"


def test_the_hour_that_comes_twice_is_told_apart() -> None:
    zone = ZoneInfo("America/New_York")
    first, second = (check_moment("run_at", datetime(2030, 11, 3, 1, 30, fold=fold, tzinfo=zone)) for fold in (0, 1))
    assert second - first == timedelta(hours=1)


@pytest.mark.parametrize(
    "value",
    [
        datetime(2030, 1, 1),  # noqa: DTZ001 - naive on purpose
        datetime(2030, 1, 1, tzinfo=Nowhere()),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=1))),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))),
        datetime(2030, 1, 1, tzinfo=UTC).date(),
        1_900_000_000,
        "2030-01-01T00:00:00Z",
        None,
    ],
    ids=repr,
)
def test_a_bad_moment_is_refused_and_named(value: object) -> None:
    with pytest.raises(InvalidJob) as caught:
        check_moment("run_at", value)
    assert caught.value.field == "run_at"


@pytest.mark.parametrize("year", [1, 1901, 1969, 2500, 9999])
def test_far_years_pass(year: int) -> None:
    moment = datetime(year, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    assert check_moment("run_at", moment) == moment


# Metadata


def test_metadata_is_copied() -> None:
    given_by_user = {"trace": "1"}
    kept = check_metadata(given_by_user)
    given_by_user["trace"] = "2"
    assert kept == {"trace": "1"}


def test_metadata_is_bounded_in_bytes_not_characters() -> None:
    check_metadata({"k": "x" * (MAX_METADATA - 1)})
    check_metadata({"": "ä" * (MAX_METADATA // 2)})
    with pytest.raises(InvalidJob, match=f"must not exceed {MAX_METADATA} bytes, has {MAX_METADATA + 1}"):
        check_metadata({"k": "x" * MAX_METADATA})
    with pytest.raises(InvalidJob):
        check_metadata({"": "ä" * (MAX_METADATA // 2 + 1)})


@pytest.mark.parametrize(
    "value",
    [
        None,
        "text",
        [("a", "b")],
        {"a": 1},
        {1: "a"},
        {"a": None},
        {"a": b"b"},
        {"a": "\x00"},
        {"\ud800": "a"},
        {"a": "\udfff"},
    ],
    ids=ascii,
)
def test_bad_metadata_is_refused_and_named(value: object) -> None:
    with pytest.raises(InvalidJob) as caught:
        check_metadata(value)
    assert caught.value.field == "metadata"


def test_metadata_may_hold_lines_and_any_script() -> None:
    value = {"note": "two\nlines\t日本 🦉", "": ""}
    assert check_metadata(value) == value


# Texts of errors


@given(st.text(), st.integers(1, 30), st.sampled_from(["head", "tail"]))
def test_a_cleaned_text_fits_every_store(text: str, limit: int, keep: str) -> None:
    cleaned = clean_text(text, limit, keep=keep)
    assert len(cleaned) == min(len(text), limit)
    assert "\x00" not in cleaned
    cleaned.encode()


def test_cleaning_replaces_and_keeps_the_asked_end() -> None:
    assert clean_text("a\x00b\ud800c", 10) == "a\ufffdb\ufffdc"
    assert clean_text("abcdef", 3) == "abc"
    assert clean_text("abcdef", 3, keep="tail") == "def"
