"""``manage.py export``: a Mysis's history as JSON."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from memory.audit import record
from memory.management.terminal import (
    ActingCommand,
    make_command_error,
    require_owner,
    show_bar,
)
from memory.models import Memory
from memory.transfer import in_out


class Command(ActingCommand):
    """Writes every message, oldest first."""

    help = (
        "Write a Mysis's history as JSON: all that import_history needs, one message "
        "a line (jsonl), one chat in the form of OpenAI's API (openai), or a text to be "
        "read (markdown)."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("mysis", help="Its number or name.")
        parser.add_argument("--format", choices=in_out.FORMATS, default="jsonl")
        parser.add_argument(
            "--output", metavar="FILE", help="Write there, not to standard output."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Write, with a bar on standard error."""
        owner = require_owner(options["mysis"])
        told = {"format": options["format"], "file": options["output"] or ""}
        record("log.download", f"log:{owner.name}", after=told)
        pieces = in_out.write_pieces(owner.pk, options["format"])
        total = Memory.objects.filter(mysis_id=owner.pk).count()
        try:
            with (
                show_bar(f"Exporting {owner.name}", total) as done,
                self._open(options["output"]) as file,
            ):
                for piece in pieces:
                    file.write(piece)
                    done(1)
                file.flush()
        except BrokenPipeError:
            # The reader has seen enough; nothing more may fail at the end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except OSError as error:
            place = options["output"] or "standard output"
            raise make_command_error(f"{place}: {error.strerror or error}") from error

    def _open(self, path: str | None) -> AbstractContextManager[Any]:
        self.stdout.ending = ""
        if not path:
            return nullcontext(self.stdout)
        return Path(path).open("w", encoding="utf-8")
