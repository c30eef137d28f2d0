"""How payloads and results become bytes, and bytes become `ctx.data`. No pickle: bytes from a store are data only."""

from __future__ import annotations

import json
import math
from typing import Protocol, runtime_checkable


@runtime_checkable
class Serializer(Protocol):
    """Anything with these three; used from any thread, several at a time."""

    @property
    def content_type(self) -> str:
        """The media type of what `dumps` makes."""
        ...

    def dumps(self, value: object) -> bytes:
        """*value* as bytes. Any `Exception` refuses it, and its text should say why without showing the value."""
        ...

    def loads(self, data: bytes) -> object:
        """The value that `dumps` made *data* of. Any `Exception` refuses it."""
        ...


class JsonSerializer:
    """
    Compact JSON in UTF-8. Bytes pass through `dumps` unchanged; tuples come back as lists and keys as text.

    Refused with `ValueError`: NaN and the infinities, both ways; surrogates, circular and too deeply nested values.
    A type that JSON lacks is a `TypeError`.
    """

    content_type = "application/json"

    def __init__(self) -> None:
        self._encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
        self._decode = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite).decode

    def dumps(self, value: object) -> bytes:
        """*value* as JSON, or unchanged where it is bytes already."""
        if isinstance(value, bytes):
            return value
        try:
            return self._encode(value).encode()
        except UnicodeEncodeError:
            raise ValueError("text holds surrogates, which UTF-8 cannot carry") from None
        except RecursionError:
            raise ValueError("nested too deeply for JSON") from None

    def loads(self, data: bytes) -> object:
        """The value of the JSON in *data*; None for no bytes at all, the payload of a job that was given none."""
        if not data:
            return None
        try:
            return self._decode(data.decode())
        except RecursionError:
            raise ValueError("nested too deeply for JSON") from None


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):  # 1e999
        raise ValueError("a number is too large for a float")
    return value
