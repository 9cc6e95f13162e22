"""What ``manage.py up`` tells the operator: calm, and safe to read by a program."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console as Terminal


class Console:
    """Lines on standard output; a spinner only where a person looks on."""

    def __init__(self) -> None:
        self._terminal = Terminal(highlight=False) if sys.stdout.isatty() else None

    def say(self, text: str) -> None:
        """Write one line, unwrapped."""
        try:
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()
        except BrokenPipeError:
            # Nobody reads any more; that is no reason to end the fleet.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)

    @contextmanager
    def working(self, text: str) -> Iterator[None]:
        """Show that something goes on."""
        if self._terminal is None:
            self.say(f"{text} ...")
            yield
            return
        with self._terminal.status(text):
            yield
