"""What SIGINT, SIGTERM and SIGHUP do to a run: end it, once, in order."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """A signal asked to end while there was nothing yet to ask in its place."""


class Signals:
    """Turns the first ending signal into one request and ignores the rest.

    A second Ctrl-C thus never breaks off the cleaning up.
    """

    def __init__(self) -> None:
        self._received = False
        self._received_at: float | None = None
        self._ask: Callable[[], object] | None = None
        for number in ENDING:
            signal.signal(number, self._receive)

    def left(self, seconds: float) -> float:
        """What is left of so many seconds from the signal on; at least 1.5."""
        began = self._received_at
        gone = 0.0 if began is None else time.monotonic() - began
        return max(1.5, seconds - gone)

    @contextmanager
    def ask(self, ask: Callable[[], object]) -> Iterator[None]:
        """Within the block call ``ask``; before it Interrupted is raised."""
        self._ask = ask
        try:
            yield
        finally:
            self._ask = self._ignore

    def _receive(self, number: int, frame: object) -> None:
        if self._received:
            return
        self._received = True
        self._received_at = time.monotonic()
        if self._ask is None:
            raise Interrupted
        self._ask()

    @staticmethod
    def _ignore() -> None:
        """The run is ending already."""
