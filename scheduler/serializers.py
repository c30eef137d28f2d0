"""Encode payloads and results as bytes, and decode them. No pickle: bytes from a store must never run code."""

from __future__ import annotations

import json
import math
from typing import Protocol, runtime_checkable

__all__ = ["JsonSerializer", "Serializer"]


@runtime_checkable
class Serializer(Protocol):
    """An object with these two methods. They are called from any thread, several at a time."""

    def dumps(self, value: object) -> bytes:
        """Encode *value*. Raise any `Exception` to refuse it, with a message that says why but not the value."""
        ...

    def loads(self, data: bytes) -> object:
        """Decode what `dumps` has returned. Raise any `Exception` to refuse it."""
        ...


class JsonSerializer:
    """
    Compact JSON in UTF-8. `dumps` returns bytes unchanged; tuples come back as lists, and keys as text.

    Both methods raise `ValueError` for NaN, infinities and values that are too deeply nested, `dumps` also for
    surrogates and circular values. `dumps` raises `TypeError` for a type that JSON does not have.
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
            raise ValueError("text holds surrogates, which UTF-8 cannot carry") from None
        except RecursionError:
            raise ValueError("nested too deeply for JSON") from None

    def loads(self, data: bytes) -> object:
        """Decode JSON. No bytes, the payload of a job that was enqueued without one, are None."""
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
