"""A Mysis named on a command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.core.management import CommandError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.progress import TimeRemainingColumn as Remaining

from memory.lookup import Owner, find_owner

BAD_INPUT = 2


def refuse(text: str) -> CommandError:
    """The error of input that cannot be used: one line, exit status 2."""
    return CommandError(" ".join(text.split()), returncode=BAD_INPUT)


def owner_named(reference: str) -> Owner:
    """The Mysis of a number or a name; raises CommandError with status 2."""
    found = find_owner(reference)
    if found is None:
        raise refuse(
            f"There is no Mysis {reference[:100]!r}: name one by its number or name."
        )
    return found


# SECTION Bars on standard error for what takes long; nothing where nobody looks.


@contextmanager
def bar(words: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar; the function it gives is told how many more are done."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    hidden = not console.is_terminal
    with Progress(*columns, Remaining(), console=console, disable=hidden) as progress:
        task = progress.add_task(words, total=total)
        yield lambda more: progress.advance(task, more)
