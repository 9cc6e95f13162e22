"""Tells other processes that there is something new, and nothing else.

A NOTIFY inside a busy transaction serialises commits across the server, so the
hint goes out after commit, from a connection of its own, at most once in
20 ms per process, which is also how late a hint can make an event. A lost hint
costs readers one poll interval.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import psycopg
from django.db import connections

CHANNEL = "zoea_events"
DEBOUNCE = 0.02

logger = logging.getLogger(__name__)


def connection_parameters() -> dict[str, Any]:
    """Plain psycopg parameters of the default database."""
    params = connections["default"].get_connection_params()
    for key in ("pool", "cursor_factory", "context"):
        params.pop(key, None)
    return params


class Hinter:
    """One background thread that turns many calls into few NOTIFYs."""

    def __init__(self) -> None:
        self._wanted = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closing = False

    def send(self) -> None:
        """Ask for a hint; returns at once."""
        self._wanted.set()
        if self._thread is None or not self._thread.is_alive():
            with self._lock:
                self._start()

    def close(self) -> None:
        """End the thread and its connection; a later hint starts them again."""
        if self._thread is not None:
            self._closing = True
            self._wanted.set()
            self._thread.join()

    def _start(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            return
        self._closing = False
        self._thread = threading.Thread(
            target=self._run, name="event-hints", daemon=True
        )
        self._thread.start()

    def _run(self) -> None:
        database: psycopg.Connection[Any] | None = None
        while True:
            self._wanted.wait()
            if self._closing:
                break
            self._wanted.clear()
            database = self._notify(database)
            time.sleep(DEBOUNCE)
        if database is not None:
            database.close()

    def _notify(
        self, database: psycopg.Connection[Any] | None
    ) -> psycopg.Connection[Any] | None:
        try:
            if database is None or database.closed:
                database = psycopg.connect(**connection_parameters(), autocommit=True)
            database.execute(f"NOTIFY {CHANNEL}")
        except psycopg.Error as error:
            logger.warning("Event hint not sent, readers will poll: %s", error)
            return None
        return database


_hinter = Hinter()


def send() -> None:
    """Tell every web process that there are new events."""
    _hinter.send()


def close() -> None:
    """End this process's hinter, as before its database is dropped."""
    _hinter.close()
