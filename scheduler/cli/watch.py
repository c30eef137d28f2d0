"""Watches an application's files, so that its workers run the newest code while it is written."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Self

from scheduler.errors import ConfigError


class FileWatch:
    """Calls *changed* whenever a Python file under *folders* changes, from a daemon thread that `close` ends."""

    def __init__(self, folders: Sequence[str], changed: Callable[[], None]) -> None:
        try:
            from watchfiles import PythonFilter, watch  # noqa: PLC0415 - an extra
        except ModuleNotFoundError:
            raise ConfigError("watch", "needs: pip install 'reliable-scheduler[watch]'") from None
        self._stop = threading.Event()

        def run() -> None:
            for _ in watch(*folders, watch_filter=PythonFilter(), stop_event=self._stop, raise_interrupt=False):
                changed()

        self._thread = threading.Thread(target=run, name="scheduler-watch", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(5.0)
