"""Large calls in small transactions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

SLICE: Final = 1_000
"""Rows that one transaction writes at most, so that no call blocks others for long, however large its batch."""

_Item = TypeVar("_Item")


def slices(items: Sequence[_Item], size: int = SLICE) -> Iterator[Sequence[_Item]]:
    """Yield *items* in runs of at most *size*."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
