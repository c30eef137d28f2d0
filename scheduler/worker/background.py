"""A thread that runs a worker for a program which has its own to do."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Background:
    """Calls *work* once, on a daemon thread, and keeps what it raised for whoever asks."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="scheduler-worker", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def join(self, timeout: float) -> None:
        """Wait for the end up to *timeout* seconds."""
        self._thread.join(timeout)

    def raise_error(self) -> None:
        """Raise what the work raised, once."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 - raised where somebody sees it
            self._error = error
