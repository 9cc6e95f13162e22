"""How ``manage.py`` runs a command: with a database, and without tracebacks.

Settings start nothing, so the command line does: it joins or starts the
embedded server for the commands that need one, and lets go at the end.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, execute_from_command_line
from django.core.management.base import CommandParser
from django.db import InterfaceError, OperationalError
from environs import EnvError

from .database import DatabaseError, check_kind, database

# Everything else gets a database, so that a new command need not be named here.
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
        "up",  # sees to its database itself
        "version",
    }
)


def needs_database(argv: Sequence[str]) -> bool:
    """Tell whether the command of this ``sys.argv`` uses the database."""
    words = argv[1:]
    if not words or {"-h", "--help", "--version"} & set(words):
        return False
    if "--database" in words:
        return True
    return words[0] not in WITHOUT_DATABASE


def run(argv: Sequence[str]) -> int:
    """Run the command and return the exit status.

    A configuration or a database that cannot be used is one line on standard
    error and status 2; so are arguments that a command cannot use.
    """
    CommandParser.error = _refuse_arguments  # type: ignore[assignment,method-assign]
    try:
        check_kind()
        if not needs_database(argv):
            execute_from_command_line(list(argv))
            return 0
        # Ends by an exception, so that the embedded server is let go.
        signal.signal(signal.SIGTERM, _end)
        with database():
            execute_from_command_line(list(argv))
    except (DatabaseError, EnvError, ImproperlyConfigured) as error:
        return refuse(str(error))
    except (OperationalError, InterfaceError) as error:
        return refuse(f"The database failed: {error}")
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return 0


def _refuse_arguments(parser: CommandParser, message: str) -> NoReturn:
    if not parser.called_from_command_line:
        raise CommandError(f"Error: {message}")
    parser.exit(2, f"{parser.prog}: {message}; {parser.prog} --help tells more.\n")


def refuse(said: str) -> int:
    """Write one line to standard error; return the status that goes with it."""
    line = " ".join(said.split())
    sys.stderr.write(f"manage.py: {line}\n")
    return 2


def _end(number: int, frame: object) -> NoReturn:
    sys.exit(128 + number)
