"""Lines of ``Label: value`` and tables with tabs: what the texts of API v2 consist of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

COUNTED = re.compile(
    r"(?P<title>[A-Za-z][\w' -]*) \((?P<count>[\d,]+)(?P<more>[^)]*)\):"
)
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
# Beside its count: this table shows some of its rows.
_PARTIAL = re.compile(r"\bof\b|/|\b(?:more|shown|showing|first|top|page)\b", re.I)

Table = list[dict[str, str]]


def split_text(lines: list[str]) -> tuple[dict[str, str], dict[str, Table]]:
    """The ``Label: value`` parts of the lines, and the tables by title in lower case.

    Of a table that shows some of its rows, or was cut, nobody knows the rest: it is none.
    """
    texts: dict[str, str] = {}
    tables: dict[str, Table] = {}
    rest = iter(range(len(lines)))
    for place in rest:
        titled = COUNTED.fullmatch(lines[place].rstrip())
        if titled is None:
            texts |= {k: v for k, v in _parts(lines[place]) if k not in texts}
            continue
        rows = list(_table(lines, place + 1))
        whole = len(rows) == read_number(titled["count"])
        if whole and not _PARTIAL.search(titled["more"]):
            tables[titled["title"].lower()] = rows
        for _ in range(len(rows) + bool(rows)):
            next(rest, None)
    return texts, tables


def get_rows(tables: Mapping[str, Table], title: str, *columns: str) -> Table | None:
    """The rows of a table; None where it is not there, or not of these columns."""
    rows = tables.get(title)
    if rows is None or not all(set(columns) <= row.keys() for row in rows):
        return None
    return rows


def _parts(line: str) -> Iterator[tuple[str, str]]:
    for part in line.split(" | "):
        label, colon, value = part.partition(":")
        if colon and "\t" not in label:
            yield label.strip(), value.strip()


def _table(lines: list[str], start: int) -> Iterator[dict[str, str]]:
    """The rows below a line of column names, as long as they have as many cells."""
    if start >= len(lines) or "\t" not in lines[start]:
        return
    names = lines[start].split("\t")
    for line in lines[start + 1 :]:
        cells = line.split("\t")
        if len(cells) != len(names):
            return
        yield {name: cell.strip() for name, cell in zip(names, cells, strict=True)}


def split_list(text: str) -> list[str]:
    """The parts between commas."""
    return [one for one in (part.strip() for part in text.split(",")) if one]


def read_number(text: str) -> int | float | None:
    """A number with thousands separators; None for another text."""
    if not NUMBER.fullmatch(text):
        return None
    plain = text.replace(",", "")
    return float(plain) if "." in plain else int(plain)
