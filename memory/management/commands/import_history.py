"""``manage.py import_history``: a history from a file into a Mysis's log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from memory.management.owner import owner_named, refuse
from memory.management.progress import bar
from memory.transfer.incoming import store
from memory.transfer.line import TransferError
from memory.transfer.source import Source, open_source


class Command(BaseCommand):
    """Checks the whole file, then stores what is not there yet."""

    help = (
        "Import a history into a Mysis: an export of this program, a chat in the form "
        "of OpenAI's API (JSON or one message a line), or a Zoea Nova database. A "
        "second import of the same file stores nothing twice; one that was broken off "
        "goes on. Passwords and session ids are left out."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """The file, and whose it becomes."""
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
        """Import, with bars on standard error; tells how many are new."""
        owner = owner_named(options["mysis"])
        if getattr(owner, "state", "") == "running":
            raise refuse(f"{owner.name} is running: stop it first, then import.")
        path = Path(options["file"])
        try:
            source = open_source(path, name=owner.name, wanted=options["source"])
            total = self._check(source)
            with bar(f"Importing into {owner.name}", total) as done:
                stored = store(owner.pk, source.lines(), done)
        except TransferError as error:
            raise refuse(f"{path}: {error}") from error
        except OSError as error:
            raise refuse(f"{path}: {error.strerror or error}") from error
        there = total - stored
        self.stdout.write(
            f"{stored} messages imported into {owner.name}, {there} were there already."
        )

    def _check(self, source: Source) -> int:
        """Read all of it before anything is stored; how many messages it has."""
        total = 0
        with bar("Checking", None) as done:
            for _ in source.lines():
                total += 1
                done(1)
        if not total:
            raise TransferError("holds no message")
        return total
