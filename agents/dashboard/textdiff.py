"""Two texts line by line, what both have folded away."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

CONTEXT = 2
# Longer texts are told apart by their size alone: a map has thousands of lines.
MOST_LINES = 1_500


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line: ``kind`` is same, added, removed, or fold where lines are left out."""

    kind: str
    text: str


def compare(before: str, after: str) -> tuple[DiffLine, ...]:
    """The lines that differ, with two around them; empty for equal texts."""
    if before == after:
        return ()
    old, new = before.splitlines(), after.splitlines()
    if max(len(old), len(new)) > MOST_LINES:
        words = f"{len(old):,} lines became {len(new):,}: too many to lay side by side"
        return (DiffLine("fold", words),)
    found = tuple(_lines(old, new))
    return found or (DiffLine("fold", "only line ends or blanks at the end differ"),)


def _lines(old: list[str], new: list[str]) -> Iterator[DiffLine]:
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for count, group in enumerate(matcher.get_grouped_opcodes(CONTEXT)):
        if count or group[0][1]:
            yield DiffLine("fold", "…")
        for tag, a_from, a_to, b_from, b_to in group:
            if tag == "equal":
                yield from _marked("same", old[a_from:a_to])
                continue
            yield from _marked("removed", old[a_from:a_to])
            yield from _marked("added", new[b_from:b_to])


def _marked(kind: str, lines: Iterable[str]) -> Iterator[DiffLine]:
    return (DiffLine(kind, line) for line in lines)
