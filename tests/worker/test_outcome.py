"""Any exception can be put into words, whatever it does when it is looked at (guarantees 14 and 19)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scheduler.errors import JobTimeout
from scheduler.limits import MAX_ERROR_KIND, MAX_ERROR_MESSAGE, MAX_ERROR_TRACEBACK
from scheduler.worker.outcome import describe
from worker import hostile
from worker.hostile import HOSTILE, name_of


def raised(make: Callable[[], BaseException]) -> BaseException:
    error = make()
    try:
        raise error
    except BaseException as caught:
        return caught


@pytest.mark.parametrize("make", HOSTILE, ids=map(name_of, HOSTILE))
def test_every_exception_can_be_described_within_bounds(make: Callable[[], BaseException]) -> None:
    detail = describe(raised(make))
    for text, limit in (
        (detail.kind, MAX_ERROR_KIND),
        (detail.message, MAX_ERROR_MESSAGE),
        (detail.traceback, MAX_ERROR_TRACEBACK),
    ):
        assert type(text) is str
        assert len(text) <= limit
        assert "\x00" not in text
        text.encode()
    assert detail.kind


@pytest.mark.parametrize(
    "make", [make for make in HOSTILE if isinstance(make, type) and make is not hostile.Nameless], ids=name_of
)
def test_the_class_is_named(make: type[BaseException]) -> None:
    assert make.__qualname__ in describe(raised(make)).kind


def test_builtins_are_named_alone_and_others_with_their_module() -> None:
    assert describe(ValueError("x")).kind == "ValueError"
    assert describe(JobTimeout("x")).kind == "scheduler.errors.JobTimeout"


def test_message_and_traceback_tell_where_it_happened() -> None:
    def deep() -> None:
        raise ValueError("not today")

    with pytest.raises(ValueError) as caught:
        deep()
    detail = describe(caught.value)
    assert detail.message == "not today"
    assert "in deep" in detail.traceback
    assert detail.traceback.rstrip().endswith("ValueError: not today")


def test_text_that_cannot_be_had_says_why() -> None:
    assert describe(hostile.StrRaises()).message == "<not printable: RuntimeError>"
    assert describe(hostile.StrExits()).message == "<not printable: SystemExit>"


def test_characters_that_no_store_takes_are_replaced() -> None:
    assert describe(hostile.WithNul()).message == "a\ufffdb\ufffdc"
