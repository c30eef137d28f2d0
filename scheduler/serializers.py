"""Serializers, which encode payloads and results as bytes. No pickle: bytes from a store must never run code."""

from __future__ import annotations

import json
import math
from typing import Protocol, runtime_checkable

__all__ = ["JsonSerializer", "Serializer"]


@runtime_checkable
class Serializer(Protocol):
    """Any object with these two methods. They are called from any thread, several at a time."""

    def dumps(self, value: object) -> bytes:
        """Encode *value*. To refuse it, raise any `Exception`; its message should give the reason but not the value."""
        ...

    def loads(self, data: bytes) -> object:
        """Decode bytes from `dumps`. To refuse them, raise any `Exception`."""
        ...


class JsonSerializer:
    """
    Serializer for compact JSON in UTF-8. `dumps` returns bytes unchanged; tuples come back as lists, and keys as text.

    Both methods raise `ValueError` for NaN, infinities and values that are nested too deeply; `dumps` raises it also
    for surrogates and circular values. `dumps` raises `TypeError` for a type that JSON does not have.
    """

    def __init__(self) -> None:
        self._encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
        self._decode = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite).decode

    def dumps(self, value: object) -> bytes:
        """Encode *value* as JSON; return bytes unchanged."""
        if isinstance(value, bytes):
            return value
        try:
            return self._encode(value).encode()
        except UnicodeEncodeError:
            raise ValueError("text contains surrogates, which UTF-8 cannot encode") from None
        except RecursionError:
            raise ValueError("nested too deeply for JSON") from None

    def loads(self, data: bytes) -> object:
        """Decode JSON. Empty *data*, the payload of a `NewJob` without one, becomes None."""
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
