"""Tables of texts, for the terminal and for a page of the documents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.markup import escape as escape_markup
from rich.table import Table


@dataclass
class TableData:
    """A table of texts; ``notes`` are the reasons of what could not be measured."""

    title: str
    headings: list[str]
    rows: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def rich_table(data: TableData) -> Table:
    """A table for the terminal."""
    table = Table(title=data.title, title_justify="left", box=SIMPLE_HEAD)
    for place, heading in enumerate(data.headings):
        table.add_column(heading, justify="right" if place else "left")
    for row in data.rows:
        table.add_row(*(escape_markup(text.replace("`", "")) for text in row))
    data.notes = _number_notes(data.notes)
    return table


def markdown_table(data: TableData) -> str:
    """The same for a document."""
    ruler = ["---", *("---:" for _ in data.headings[1:])]
    lines = [_row(data.headings), _row(ruler), *map(_row, data.rows)]
    notes = "".join(f"\n\n{note}" for note in _number_notes(data.notes))
    return "\n".join(lines) + notes


def _row(texts: Iterable[str]) -> str:
    return f"| {' | '.join(text.replace('|', '/') for text in texts)} |"


def _number_notes(notes: Sequence[str]) -> list[str]:
    return [
        note if note.startswith("[") else f"[{place}] {note}"
        for place, note in enumerate(notes, 1)
    ]


def replace_between(page: Path, begin: str, end: str, text: str) -> None:
    """Write a text between two marks of a page; raises ValueError where one is missing."""
    before, opened, rest = page.read_text().partition(begin)
    _, closed, after = rest.partition(end)
    if not (opened and closed):
        raise ValueError(f"{page} has no {begin} and {end} to write between.")
    page.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}")
