"""How ``manage.py`` runs a command: with a database, and without tracebacks.

Settings start nothing, so the command line does: it joins or starts the embedded server
for the commands that need a database, and releases it at the end. Where DATABASE_URL
names another server, that one is checked.
"""

from __future__ import annotations

import logging
import signal
import sys
import time
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import django
import psycopg
from django import db
from django.conf import settings
from django.core.checks import Error
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, execute_from_command_line
from django.core.management.base import CommandParser
from django.db import InterfaceError, OperationalError, connections
from environs import EnvError

from zoea.json_logs import build_line, is_json_wanted, log_uncaught
from zoea.postgres import EmbeddedPostgres, PostgresError, acquire

OLDEST_VERSION = 15

# Every other command gets a database, so a new one need not be named here.
WITHOUT_DATABASE = frozenset(
    {
        "assemble",
        "check",
        "collectstatic",
        "compilemessages",
        "diffsettings",
        "findstatic",
        "help",
        "makemessages",
        "sandbox",
        "startapp",
        "startproject",
        "up",  # starts its database itself
        "version",
    }
)


# How often a worker looks whether its database is back.
LOOK_SECONDS = 2.0


class DatabaseError(Exception):
    """No database can be used; one line with the remedy."""


class DatabaseAwayError(DatabaseError):
    """No server answers; it may only be on its way."""


def run_command(
    argv: Sequence[str],
    execute: Callable[[list[str]], None] = execute_from_command_line,
) -> int:
    """Run the command; returns the exit status.

    ``execute`` is another way to do that, for a command that needs no models.
    Bad settings, a database that cannot be used and bad arguments are one line on
    standard error and status 2.
    """
    log_uncaught()
    CommandParser.error = _refuse_arguments  # type: ignore[assignment,method-assign]
    try:
        engine = settings.DATABASES["default"]["ENGINE"]
        # Before the models are loaded: they work with nothing else.
        if engine != "django.db.backends.postgresql":
            raise DatabaseError(
                "DATABASE_URL must begin with postgresql://: Zoea runs on PostgreSQL "
                "only."
            )
        if not _needs_database(argv):
            execute(list(argv))
            return 0
        # End by an exception, so that the embedded server is released.
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
        opened = await_database() if _is_worker(argv) else open_database()
        with opened:
            execute(list(argv))
    except (DatabaseError, EnvError, ImproperlyConfigured) as error:
        return print_refusal(str(error))
    except (OperationalError, InterfaceError) as error:
        return print_refusal(f"The database failed: {error}")
    except db.Error as error:
        if (missing := _find_missing_right(error)) is None:
            raise
        return print_refusal(_describe_missing_right(missing))
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return 0


def _find_missing_right(
    error: BaseException | None,
) -> psycopg.errors.InsufficientPrivilege | None:
    """The refusal of a right that an error came of; Django wraps it more than once."""
    while error is not None and not isinstance(
        error, psycopg.errors.InsufficientPrivilege
    ):
        error = error.__cause__ or error.__context__
    return error


def _describe_missing_right(error: psycopg.errors.InsufficientPrivilege) -> str:
    """What the database role may not do, and who gives it the right."""
    role = settings.DATABASES["default"].get("USER") or "of DATABASE_URL"
    reason = str(error).strip().splitlines()[0]
    return (
        f"The database refuses its role {role} a right ({reason}): let the owner of the "
        f'database GRANT ALL ON SCHEMA public TO "{role}", or name another role in '
        "DATABASE_URL."
    )


def print_refusal(text: str) -> int:
    """Write one line to standard error; returns the exit status 2."""
    line = " ".join(text.split())
    said = build_line(line, logging.ERROR) if is_json_wanted() else f"manage.py: {line}"
    sys.stderr.write(f"{said}\n")
    return 2


def parse_whole(least: int, most: int, refusal: str) -> Callable[[str], int]:
    """A type of arguments: whole numbers in this range; ``refusal`` may quote the text."""

    def parse(text: str) -> int:
        if text.isascii() and text.isdecimal() and least <= int(text) <= most:
            return int(text)
        raise ArgumentTypeError(refusal.format(text))

    return parse


def _needs_database(argv: Sequence[str]) -> bool:
    words = argv[1:]
    if not words or {"-h", "--help", "--version"} & set(words):
        return False
    if "--database" in words:
        return True
    return words[0] not in WITHOUT_DATABASE


def _is_worker(argv: Sequence[str]) -> bool:
    return argv[1:2] == ["procrastinate"] and "worker" in argv[2:]


def _load_program() -> None:
    """Load what a worker works with; what is loaded already takes no time."""
    django.setup()
    for name in settings.PROCRASTINATE_IMPORT_PATHS:
        import_module(name)


@contextmanager
def await_database() -> Iterator[None]:
    """Open it as soon as a server answers, however long that takes."""
    said = ""
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(open_database())
                break
            except DatabaseAwayError as error:
                if str(error) != said:
                    said = str(error)
                    print_refusal(f"{said} It is waited for.")
                # Meanwhile: on a busy machine that takes longer than all the rest.
                _load_program()
            time.sleep(LOOK_SECONDS)
        yield


@contextmanager
def open_database(
    stop_seconds: Callable[[], float] = lambda: 20.0,
) -> Iterator[EmbeddedPostgres | None]:
    """Start or join the embedded server for the block, or check the other one.

    Raises DatabaseError. ``stop_seconds`` is called at the end: how long the last user
    waits for the embedded server to stop by itself.
    """
    if not settings.ZOEA_EMBEDDED_POSTGRES:
        _check_outside_server()
        yield None
        return
    try:
        server = acquire(settings.ZOEA_DATA)
    except PostgresError as error:
        raise DatabaseAwayError(str(error)) from error
    try:
        yield server
    finally:
        close_connections()
        server.release(stop_seconds())


def _check_outside_server() -> None:
    """Connect once to the server of DATABASE_URL; raises DatabaseError."""
    try:
        with connect_directly() as connection:
            version = connection.info.server_version // 10_000
    except psycopg.Error as error:
        reason = str(error).strip().splitlines()[0].removeprefix("connection failed: ")
        raise DatabaseAwayError(
            f"DATABASE_URL cannot be used ({reason}): start that server or correct "
            "the address, or unset it to use the embedded one."
        ) from error
    if version < OLDEST_VERSION:
        raise DatabaseError(
            f"DATABASE_URL leads to PostgreSQL {version}: use {OLDEST_VERSION} or newer."
        )


def check_secret_key(app_configs: Any = None, **kwargs: Any) -> list[Error]:
    """The key that encrypts secrets must outlive the process."""
    if settings.ZOEA_KEYS_KEPT:
        return []
    return [
        Error(
            f"The secret key could not be stored in {settings.ZOEA_DATA}.",
            hint="Make the data folder writable, or set ZOEA_SECRET_KEY.",
            id="zoea.E001",
        )
    ]


def can_serve_before_migration(server: EmbeddedPostgres | None) -> bool:
    """Whether the web server may start while the database is brought up to date.

    Where no migration is missing, and on an empty database: nobody has a link to that
    yet. Where that cannot be told it has to wait, as on a database of an older version.
    Told without the apps, which take a second to load, and of an embedded ``server``
    without Django's way to it: every migration in their packages is looked for.
    """
    try:
        with (
            psycopg.connect(server.conninfo()) if server else connect_directly()
        ) as database:
            rows = database.execute("SELECT app, name FROM django_migrations")
            applied = set(rows.fetchall())
    except psycopg.errors.UndefinedTable:
        return True
    except psycopg.Error:
        return False
    return all(
        any((word, path.stem) in applied for word in words)
        for words, folder in _migration_folders()
        for path in folder.glob("[!_]*.py")
    )


def _migration_folders() -> Iterator[tuple[list[str], Path]]:
    """The words of each app's path, of which one is its label, and its migrations."""
    for entry in settings.INSTALLED_APPS:
        top, *words = entry.partition(".apps.")[0].split(".")
        found = find_spec(top)
        for place in (found and found.submodule_search_locations) or ():
            yield [top, *words], Path(place, *words, "migrations")


def connect_directly(seconds: int = 5) -> psycopg.Connection:
    """Connect past the pool, which would keep trying and hide why; raises psycopg.Error."""
    parameters = connections["default"].get_connection_params()
    # The rows are read as Python's own types.
    for name in ("pool", "cursor_factory", "context"):
        parameters.pop(name, None)
    return psycopg.connect(**parameters | {"connect_timeout": seconds})


def close_connections() -> None:
    """Close this thread's connections and their pools."""
    for connection in connections.all(initialized_only=True):
        connection.close()
        close_pool = getattr(connection, "close_pool", None)
        if close_pool is not None:
            close_pool()


def _refuse_arguments(parser: CommandParser, message: str) -> NoReturn:
    if not parser.called_from_command_line:
        raise CommandError(f"Error: {message}")
    parser.exit(2, f"{parser.prog}: {message}; {parser.prog} --help tells more.\n")
