"""``manage.py import_history``: import a history from a file into a Mysis's log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from agents import history_import
from agents.actions.base import name_mysis
from agents.models import Mysis
from memory.audit import record
from memory.management.terminal import (
    ActingCommand,
    make_command_error,
    require_owner,
    show_bar,
)
from memory.transfer.formats import open_history
from memory.transfer.line import TransferError


class Command(ActingCommand):
    """Checks the whole file, then stores what is not there yet."""

    help = (
        "Import a history into a Mysis: an export of this program, a chat in the form "
        "of OpenAI's API (JSON or one message a line), or a Zoea Nova database. A "
        "second import of the same file stores nothing twice; one that was broken off "
        "goes on. Passwords and session ids are left out of messages. From a Zoea Nova "
        "database its game accounts and game states come along."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar="FILE")
        parser.add_argument("--mysis", required=True, help="Its number or name.")
        parser.add_argument(
            "--from",
            dest="source",
            default="",
            metavar="NAME",
            help="Which Mysis of a database with several; without it, the one of the "
            "same name.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Import, with bars on standard error; prints how many messages are new."""
        mysis = Mysis.objects.get(pk=require_owner(options["mysis"]).pk)
        if mysis.state == Mysis.State.RUNNING:
            raise make_command_error(
                f"{mysis.name} is running: stop it first, then import."
            )
        path = Path(options["file"])
        try:
            self._import(path, mysis, options["source"])
        except TransferError as error:
            raise make_command_error(f"{path}: {error}") from error
        except MemoryError as error:
            raise make_command_error(
                f"{path}: too large for the memory of this machine"
            ) from error
        except OSError as error:
            raise make_command_error(f"{path}: {error.strerror or error}") from error

    def _import(self, path: Path, mysis: Mysis, wanted: str) -> None:
        found = open_history(path, name=mysis.name, wanted=wanted)
        source = found
        with show_bar("Checking", None) as done:
            total, found_notes = history_import.check_source(mysis, source, done)
        told = {"file": path.name, "messages": total, "notes": len(found_notes)}
        record("history.import", name_mysis(mysis), after=told)
        with show_bar(f"Importing into {mysis.name}", total) as done:
            stored = history_import.import_messages(mysis, source, done)
        notes, refused = history_import.import_notes(mysis, found_notes)
        accounts, states = history_import.import_accounts_and_states(mysis, source)
        self.stdout.write(
            f"{stored} messages imported into {mysis.name}, "
            f"{total - stored} were there already."
        )
        if notes:
            self.stdout.write(f"{notes} notes imported.")
        for why in refused:
            self.stderr.write(f"Note left out: {why}")
        if source.is_nova:
            self.stdout.write(
                f"{accounts} game accounts and {states} game states imported."
            )
