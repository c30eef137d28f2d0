"""Keeps a process's status in a file, for a probe that reads files."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from pathlib import Path

from scheduler.cli.status import Status
from scheduler.errors import ConfigError

_log = logging.getLogger(__name__)


class HealthFile:
    """
    Its age tells that the process lives, its content how it is.

    Raises `ConfigError` where it cannot be written at the start. Later a full disk, say, is told once and ends nothing.
    """

    def __init__(self, path: str, status: Status) -> None:
        self._path = Path(path)
        self._beside = Path(f"{path}.{os.getpid()}")
        self._failed = False
        try:
            self._replace(status)
        except OSError as error:
            raise ConfigError("health_file", f"cannot be written: {error}") from error

    def write(self, status: Status) -> None:
        """Replace it as a whole, so that a reader never sees half of it."""
        try:
            self._replace(status)
        except OSError as error:
            if not self._failed:
                _log.warning("The health file %s cannot be written: %s", self._path, error)
            self._failed = True
        else:
            self._failed = False

    def _replace(self, status: Status) -> None:
        try:
            self._beside.write_text(status.to_json() + "\n")
            self._beside.replace(self._path)
        except OSError:
            with suppress(OSError):
                self._beside.unlink(missing_ok=True)
            raise
