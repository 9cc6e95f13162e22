"""Text instead of JSON: the lines and tables that a later server sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def as_text(value: Any) -> str:
    """Render a JSON answer the way a person would like to read it.

    Scalars are lines, lists of objects are tables with tabs, long numbers have commas.
    """
    if value == [] or (isinstance(value, Mapping) and value.get("count") == 0):
        return "No notifications."
    return "\n".join(_lines(value, ""))


def _lines(value: Any, title: str) -> list[str]:
    if isinstance(value, Mapping):
        return _section(value, title)
    if isinstance(value, list):
        return _table(value, title)
    return [f"{title}: {_cell(value)}"]


def _section(view: Mapping[str, Any], title: str) -> list[str]:
    lines = [f"## {title}"] if title else []
    plain = {k: v for k, v in view.items() if not isinstance(v, Mapping | list)}
    lines += [f"{_words(name)}: {_cell(value)}" for name, value in plain.items()]
    for name, value in view.items():
        if name not in plain:
            lines += ["", *_lines(value, _words(name))]
    return lines


def _table(rows: list[Any], title: str) -> list[str]:
    lines = [f"{title} ({len(rows)})"]
    if not all(isinstance(row, Mapping) for row in rows):
        return [*lines, ", ".join(_cell(row) for row in rows)]
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines.append("\t".join(names))
    return lines + ["\t".join(_cell(row.get(name)) for name in names) for row in rows]


def _words(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return " ".join(f"{name}={_cell(one)}" for name, one in value.items())
    if isinstance(value, list):
        return ",".join(_cell(one) for one in value)
    return str(value).replace("\t", " ").replace("\n", " ")
