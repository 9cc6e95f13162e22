"""What commands share: a Mysis named by an argument, refusals, and progress bars."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.core.management import BaseCommand, CommandError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.progress import TimeRemainingColumn as Remaining

from memory.audit import Actor, acting_as
from memory.handles import Owner, find_owner

BAD_INPUT = 2


class LightCommand(BaseCommand):
    """A command before which the settings are checked, and no page is loaded for it."""

    requires_system_checks = ["zoea"]


class ActingCommand(LightCommand):
    """A command whose acts stand in the audit log as those of whoever runs it."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Run the command, and let the audit log name its user."""
        with acting_as(Actor(f"command line ({_find_account()})")):
            return super().execute(*args, **options)


def _find_account() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        # In a container a number may have no name.
        return str(os.getuid())


def make_command_error(text: str) -> CommandError:
    """The error of input that cannot be used: one line, exit status 2."""
    return CommandError(" ".join(text.split()), returncode=BAD_INPUT)


def require_owner(reference: str) -> Owner:
    """The Mysis of a number or a name; raises CommandError with status 2."""
    found = find_owner(reference)
    if found is None:
        raise make_command_error(
            f"There is no Mysis {reference[:100]!r}: name one by its number or name."
        )
    return found


@contextmanager
def show_bar(words: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar on standard error, if that is a terminal; yields its `advance(more)`."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    hidden = not console.is_terminal
    with Progress(*columns, Remaining(), console=console, disable=hidden) as progress:
        task = progress.add_task(words, total=total)
        yield lambda more: progress.advance(task, more)
