"""The database of a command: the embedded server, or the one of DATABASE_URL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
from django.conf import settings
from django.db import connections

from .postgres import EmbeddedPostgres, PostgresError, acquire

OLDEST_VERSION = 15
_CONNECT_SECONDS = 5


class DatabaseError(Exception):
    """There is no usable database; one line with the remedy."""


@contextmanager
def database(
    stop_seconds: Callable[[], float] = lambda: 20.0,
) -> Iterator[EmbeddedPostgres | None]:
    """Hold the database open: start or join the embedded one, or try the other.

    Raises DatabaseError. ``stop_seconds`` is asked, at the end, how long a last
    user waits for the embedded server to stop by itself.
    """
    if not settings.ZOEA_EMBEDDED_POSTGRES:
        check_outside_server()
        yield None
        return
    try:
        server = acquire(settings.ZOEA_DATA)
    except PostgresError as error:
        raise DatabaseError(str(error)) from error
    try:
        yield server
    finally:
        close_connections()
        server.release(stop_seconds())


def check_kind() -> None:
    """Check that DATABASE_URL names a PostgreSQL. Raises DatabaseError.

    Before the models are loaded: they know nothing else.
    """
    if settings.DATABASES["default"]["ENGINE"] != "django.db.backends.postgresql":
        raise DatabaseError(
            "DATABASE_URL must begin with postgresql://: Zoea runs on PostgreSQL only."
        )


def check_outside_server() -> None:
    """Connect once to the server of DATABASE_URL. Raises DatabaseError.

    Without the pool, which would keep trying and hide the reason.
    """
    parameters = connections["default"].get_connection_params()
    parameters.pop("pool", None)
    parameters["connect_timeout"] = _CONNECT_SECONDS
    try:
        with psycopg.connect(**parameters) as connection:
            version = connection.info.server_version // 10_000
    except psycopg.Error as error:
        reason = str(error).strip().splitlines()[0].removeprefix("connection failed: ")
        raise DatabaseError(
            f"DATABASE_URL cannot be used ({reason}): start that server or correct "
            "the address, or unset it to use the embedded one."
        ) from error
    if version < OLDEST_VERSION:
        raise DatabaseError(
            f"DATABASE_URL leads to PostgreSQL {version}: use {OLDEST_VERSION} or newer."
        )


def close_connections() -> None:
    """Close this thread's connections and the pools."""
    for connection in connections.all(initialized_only=True):
        connection.close()
        close_pool = getattr(connection, "close_pool", None)
        if close_pool is not None:
            close_pool()
