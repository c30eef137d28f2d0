"""Serializing payloads to JSON that every language can read."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.serializers import JsonSerializer, Serializer

SERIALIZER = JsonSerializer()
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda values: st.lists(values) | st.dictionaries(TEXTS, values),
    max_leaves=20,
)


def circular() -> list[object]:
    value: list[object] = []
    value.append(value)
    return value


def deep() -> list[object]:
    value: list[object] = []
    for _ in range(200_000):
        value = [value]
    return value


class Pair(NamedTuple):
    left: int
    right: int


def test_it_is_a_serializer_of_json() -> None:
    assert isinstance(SERIALIZER, Serializer)


@given(VALUES)
def test_what_goes_in_comes_out(value: object) -> None:
    assert SERIALIZER.loads(SERIALIZER.dumps(value)) == value


@given(VALUES)
def test_any_json_reader_reads_it(value: object) -> None:
    assert json.loads(SERIALIZER.dumps(value).decode("utf-8")) == value


def test_it_is_compact_and_in_utf_8() -> None:
    assert (
        SERIALIZER.dumps({"name": "日本", "n": [1, 2.5, None, True]})
        == '{"name":"日本","n":[1,2.5,null,true]}'.encode()
    )


@given(st.binary())
def test_bytes_pass_through_unchanged(data: bytes) -> None:
    assert SERIALIZER.dumps(data) is data


def test_tuples_come_back_as_lists_and_keys_as_text() -> None:
    assert SERIALIZER.loads(SERIALIZER.dumps({1: (2, Pair(3, 4))})) == {"1": [2, [3, 4]]}


@pytest.mark.parametrize(
    ("value", "kind", "why"),
    [
        (math.nan, ValueError, "not JSON compliant"),
        ([math.inf], ValueError, "not JSON compliant"),
        ({"a": -math.inf}, ValueError, "not JSON compliant"),
        ({math.nan: 1}, ValueError, "not JSON compliant"),
        ("\ud800", ValueError, "surrogates"),
        ({"\udfff": 1}, ValueError, "surrogates"),
        (circular(), ValueError, "Circular"),
        (deep(), ValueError, "nested too deeply"),
        (10**5_000, ValueError, "digits"),
        ({1, 2}, TypeError, "set"),
        (object(), TypeError, "object"),
        ([b"bytes inside"], TypeError, "bytes"),
        (bytearray(b"x"), TypeError, "bytearray"),
        ({(1, 2): 3}, TypeError, "tuple"),
        (1j, TypeError, "complex"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isascii() else type(value).__name__,
)
def test_what_json_cannot_carry_is_refused(value: object, kind: type[Exception], why: str) -> None:
    with pytest.raises(kind, match=why):
        SERIALIZER.dumps(value)


@pytest.mark.parametrize("value", ["KEEP \ud800 SECRET", ["KEEP SECRET", {1}], {"KEEP SECRET": math.nan}], ids=ascii)
def test_a_refusal_does_not_show_the_value(value: object) -> None:
    """Errors are logged, payloads never are."""
    with pytest.raises((ValueError, TypeError)) as caught:
        SERIALIZER.dumps(value)
    assert "SECRET" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "data",
    [
        b"NaN",
        b"[Infinity]",
        b'{"a":-Infinity}',
        b"1e999",
        b"[-1e999]",
        b"[" * 200_000,
        b"9" * 5_000,
        b"\xff",
        b'"\xed\xa0\x80"',
        b"\xef\xbb\xbf1",
        b"{",
        b"1 2",
        b" ",
        "1".encode("utf-16"),
    ],
    ids=lambda data: ascii(data[:12]),
)
def test_what_is_no_json_is_refused(data: bytes) -> None:
    """Only UTF-8 and finite numbers are accepted, as by strict JSON readers."""
    with pytest.raises(ValueError):
        SERIALIZER.loads(data)


@given(st.binary())
def test_any_bytes_are_read_or_refused_by_a_value_error(data: bytes) -> None:
    try:
        value = SERIALIZER.loads(data)
    except ValueError:
        return
    assert not any(isinstance(leaf, float) and not math.isfinite(leaf) for leaf in leaves(value))


def leaves(value: object) -> Iterator[object]:
    if isinstance(value, list):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, dict):
        yield from leaves([*value, *value.values()])
    else:
        yield value


def test_no_bytes_at_all_are_no_value() -> None:
    """The payload of a job built without one can be read, too."""
    assert SERIALIZER.loads(b"") is None
