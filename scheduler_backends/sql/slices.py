"""Splitting of large calls into small transactions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

SLICE: Final = 1_000
"""The most rows that one transaction writes, so that a large batch does not block other calls for long."""

_Item = TypeVar("_Item")


def slices(items: Sequence[_Item], size: int = SLICE) -> Iterator[Sequence[_Item]]:
    """Yield slices of *items* with at most *size* items each."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
