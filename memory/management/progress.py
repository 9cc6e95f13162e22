"""Bars on standard error for what takes long; nothing where nobody looks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.progress import TimeRemainingColumn as Remaining


@contextmanager
def bar(words: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar; the function it gives is told how many more are done."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    hidden = not console.is_terminal
    with Progress(*columns, Remaining(), console=console, disable=hidden) as progress:
        task = progress.add_task(words, total=total)
        yield lambda more: progress.advance(task, more)
