"""What each process writes down: a line of JSON an event, in a file of its own that outlives its death."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Event(NamedTuple):
    """Written by `process` (its file's name) as its `number`th line."""

    process: str
    number: int
    name: str
    fields: dict[str, object]


class Ledger:
    """Appends events. A line is one write to a file opened for appending, so a killed process leaves whole lines."""

    def __init__(self, folder: Path, process: str) -> None:
        self._path = folder / f"{process}.jsonl"

    def write(self, name: str, **fields: object) -> None:
        """Append one event. Any thread. Opened each time: a ledger whose worker has gone keeps no descriptor."""
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(file, (json.dumps([name, fields]) + "\n").encode())
        finally:
            os.close(file)


def read(folder: Path) -> Iterator[Event]:
    """All events, those of one process in their order. A last line cut short by a full disk is an error."""
    for path in sorted(folder.glob("*.jsonl")):
        with path.open() as lines:
            for number, line in enumerate(lines):
                name, fields = json.loads(line)
                yield Event(path.stem, number, name, fields)
