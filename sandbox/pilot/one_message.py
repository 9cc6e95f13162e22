"""The pilot's reading of a view that is one message: orders, calls with results, state.

Such a view (`coalesced`) has no messages of the agent. What was called, heard and said
is read from its lines, in the order in which they stand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memory.context.strategies.coalesced import (
    CALLS_HEADER,
    ERROR_HEADER,
    FINAL_TURN,
    OUTPUT_HEADER,
)
from memory.context.turn_digest import TURN_END
from memory.context.types import split_nudge
from sandbox.pilot.grouped import is_group, read_text
from sandbox.pilot.reading import (
    Called,
    Entry,
    Heard,
    Said,
    read_answer,
    split_state,
)

_TURNS_LEFT = re.compile(rf"^(?:Turns left: \d+|{re.escape(FINAL_TURN)})$", re.M)
_ORDER = re.compile(r"^; order (\S+), (open|answered)$")
_MARK = re.compile(r"^; -- order (\S+) --$")
_CALL = re.compile(r"^;   (\w+)\((.*)\)$")
_TOOL = re.compile(r"^\(tool/(\S+?)((?: [^\s)]+)*)\)")
_RESULT = ";     "
_DECODER = json.JSONDecoder()
_WORDS: Mapping[str, Any] = {"true": True, "false": False, "nil": None}


@dataclass(slots=True)
class OneMessage:
    """What such a message holds: the entries in their order, and the state block.

    ``named`` is the paragraph of its reminder that names the open orders.
    """

    entries: list[Entry] = field(default_factory=list)
    state: str = ""
    named: str = ""


@dataclass(slots=True)
class _Order:
    text: str
    handle: str
    is_open: bool


def is_one_message(text: str) -> bool:
    """Whether a text of the user role tells a whole history."""
    return bool(_TURNS_LEFT.search(text))


def read_one_message(
    text: str,
    listed: Mapping[str, Sequence[str]] | None = None,
    takes: Mapping[str, Sequence[str]] | None = None,
) -> OneMessage:
    """Read a whole history from one text of the user role.

    ``listed`` are the parameters of the tools that the system message lists, ``takes``
    those of the commands of grouped tools.
    """
    found = list(_TURNS_LEFT.finditer(text))[-1]
    body, rest = text[: found.start()], text[found.end() :]
    rest, due, named = split_nudge(rest)
    _, state = split_state(rest.strip())
    sections = _split_sections(body)
    orders = list(_read_orders(sections.get("", ())))
    own = _read_parameters(sections.get(";; === tool/ ===", ()))
    names = {**(listed or {}), **own, **(takes or {})}
    told = [*sections.get(CALLS_HEADER, ()), *sections.get(ERROR_HEADER, ())]
    entries = _place_entries(orders, list(_read_calls(told, names)))
    return OneMessage([*entries, *([Heard(due)] if due else [])], state, named)


def _split_sections(body: str) -> dict[str, list[str]]:
    """The lines below each heading; those before the first one under an empty name."""
    sections: dict[str, list[str]] = {"": []}
    known = (CALLS_HEADER, OUTPUT_HEADER, ERROR_HEADER)
    name = ""
    for line in body.splitlines():
        if line in known or line.startswith((";; === ", ";; Expected output:")):
            name = line
            sections[name] = []
        else:
            sections[name].append(line)
    return sections


def _read_orders(lines: Sequence[str]) -> Iterator[_Order]:
    """Orders with their labels; what has none is the mission."""
    text: list[str] = []
    for line in lines:
        if found := _ORDER.match(line):
            yield _Order("\n".join(text).strip(), found[1], found[2] == "open")
            text.clear()
        else:
            text.append(line)
    if mission := "\n".join(text).strip():
        # Standing orders hold for ever: nobody has done with them.
        yield _Order(mission, "", is_open=True)


def _read_parameters(lines: Sequence[str]) -> dict[str, list[str]]:
    """The names of each tool's parameters, in their order."""
    found = filter(None, map(_TOOL.match, lines))
    return {match[1]: match[2].split() for match in found}


def _read_calls(
    lines: Sequence[str], names: Mapping[str, Sequence[str]]
) -> Iterator[Entry]:
    """Calls with their results, marks of orders (by handle) and ends of turns."""
    name, arguments, result = "", "", list[str]()
    for step, line in enumerate([*lines, TURN_END]):
        if name and line.startswith(_RESULT):
            result.append(line.removeprefix(_RESULT))
            continue
        if name:
            name, values = _find_command(name, list(_read_values(arguments)))
            given = dict(zip(names.get(name, ()), values, strict=False))
            answer = read_text(name, read_answer("\n".join(result)))
            yield Called(name, given, answer, step)
            name = ""
            result.clear()
        if found := _CALL.match(line):
            name, arguments = found[1], found[2]
        elif found := _MARK.match(line):
            yield Heard(found[1])
        elif line == TURN_END and step < len(lines):
            yield Said("")


def _find_command(name: str, values: list[Any]) -> tuple[str, list[Any]]:
    """The command of a call and its values; of a grouped tool the first one names it."""
    if is_group(name) and values and isinstance(values[0], str):
        return values[0], values[1:]
    return name, values


def _read_values(text: str) -> Iterator[Any]:
    """The values of a call's arguments; of what was clipped the beginning."""
    while text := text.lstrip(", "):
        try:
            value, end = _DECODER.raw_decode(text)
        except ValueError:
            word = re.match(r"[^,]*", text)
            end = word.end() if word else len(text)
            value = _WORDS.get(text[:end], text[:end])
        yield value
        text = text[end:]


def _place_entries(orders: Sequence[_Order], calls: Sequence[Entry]) -> list[Entry]:
    """The orders where their marks stand; those from before the first call ahead."""
    texts = {order.handle: order.text for order in orders if order.handle}
    marked = {entry.text for entry in calls if isinstance(entry, Heard)}
    entries: list[Entry] = []
    for order in orders:
        if order.handle not in marked:
            entries += [Heard(order.text)]
            entries += [] if order.is_open else [Said("")]
    for entry in calls:
        if isinstance(entry, Heard):
            # An order of long ago has a mark, but is not quoted any more.
            entries += [Heard(texts[entry.text])] if entry.text in texts else []
        else:
            entries.append(entry)
    newest = orders[-1] if orders else None
    if newest and not newest.is_open and isinstance(entries[-1], Heard):
        entries.append(Said(""))
    return entries
