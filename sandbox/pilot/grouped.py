"""The game of API v2 for the pilot: grouped tools, and answers that are texts.

The pilot thinks in commands (`mine`). Here a command becomes a call of the tool that
has it as an action, and such a call and its text become a command with figures again.
Where the tools are only listed, it reads their schemas before it flies.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sandbox.pilot.reading import Answer, Entry, as_objects, as_text, is_help

_GROUP = "spacemolt"
# The tools whose commands a captain flies by.
_FLOWN_BY = (_GROUP, f"{_GROUP}_auth", f"{_GROUP}_intel", f"{_GROUP}_ship")
_ACTION = re.compile(r"^- (\w+)\(([^()]*)\)", re.M)
_HEAD = re.compile(r"([^\n|]{1,60}?) \[([a-z]*)\] \| (-?[\d,]+)cr")
_NAMED = re.compile(r"(.*) \(([^()]*)\)$")
_TABLE = re.compile(r"([A-Z][\w ]*) \(([\d,]+)[^)]*\):$")
_RATIO = re.compile(r"(-?[\d,]+)/(-?[\d,]+)")
_SOLD = re.compile(r"Sold ([\d,]+) (.+?) for ([\d,]+)cr\.")

Routes = Mapping[str, str]
"""The grouped tool of each command."""
Described = Mapping[str, Any]
"""A tool with `description` and `parameters`."""


def is_group(tool: str) -> bool:
    return tool == _GROUP or tool.startswith(f"{_GROUP}_")


def read_told(entries: Iterable[Entry]) -> dict[str, Described]:
    """The tools by name whose schemas the answers in view tell."""
    told = (
        as_objects(entry.answer.data.get("tools"))
        for entry in entries
        if is_help(entry)
    )
    return {str(tool.get("name")): tool for tools in told for tool in tools}


def find_unread(listed: Iterable[str], known: Collection[str]) -> list[str]:
    """The tools that the captain needs and that are listed without their actions."""
    needed = {*_FLOWN_BY}.intersection(listed).difference(known)
    return sorted(needed, key=_FLOWN_BY.index)


def list_takes(tools: Mapping[str, Described]) -> dict[str, list[str]]:
    """The names of each command's arguments in order, by what a tool says of itself."""
    found: dict[str, list[str]] = {}
    for tool in sorted(filter(is_group, tools), key=len):
        about = as_text(tools[tool].get("description")) or ""
        for action in _ACTION.finditer(about):
            found.setdefault(action[1], re.findall(r"\w+", action[2]))
    return found


def find_routes(tools: Mapping[str, Described]) -> Routes:
    """The tool that has a command as an action, by the schemas of the tools."""
    found: dict[str, str] = {}
    # The core first: a word may mean another thing in a group (sell, of a wreck).
    for tool in sorted(filter(is_group, tools), key=len):
        properties = tools[tool]["parameters"].get("properties") or {}
        for action in (properties.get("action") or {}).get("enum") or ():
            found.setdefault(action, tool)
    return found


def list_commands(
    tools: Mapping[str, Described], routes: Routes
) -> dict[str, frozenset[str]]:
    """The names of the arguments of every command and of every other tool."""
    names = {
        name: frozenset(tool["parameters"].get("properties") or ())
        for name, tool in tools.items()
    }
    own = {tool: args for tool, args in names.items() if not is_group(tool)}
    return own | {command: names[tool] - {"action"} for command, tool in routes.items()}


def fold_call(
    name: str, arguments: Mapping[str, Any], routes: Routes
) -> tuple[str, dict[str, Any]]:
    """The tool to call for a command, and its arguments."""
    if name not in routes:
        return name, dict(arguments)
    return routes[name], {"action": name, **arguments}


def unfold_call(
    name: str, arguments: Mapping[str, Any]
) -> tuple[str, Mapping[str, Any]]:
    """The command of a call, and the command's arguments."""
    action = arguments.get("action")
    if not is_group(name) or not isinstance(action, str):
        return name, arguments
    return action, {key: one for key, one in arguments.items() if key != "action"}


def read_text(command: str, answer: Answer) -> Answer:
    """An answer with the figures of its text; one that is JSON stays as it is."""
    if answer.data or answer.is_error or answer.unsure or command not in _READERS:
        return answer
    lines = answer.text.rstrip("\n").split("\n")
    return Answer(answer.text, _READERS[command](lines))


def _status(lines: list[str]) -> dict[str, Any]:
    head, parts, tables = _HEAD.match(lines[0]), _parts(lines[1:]), _tables(lines)
    if head is None:
        return {}
    ship = _levels(parts, "hull", "fuel")
    if level := _RATIO.match(parts.get("Cargo", "")):
        ship |= {"cargo_used": _number(level[1]), "cargo_capacity": _number(level[2])}
    ship["cargo"] = _items(tables)
    player = {"username": head[1], "credits": _number(head[3])}
    return {
        "player": player,
        "ship": ship,
        "location": {"docked_at": parts.get("Docked at")},
    }


def _ship(lines: list[str]) -> dict[str, Any]:
    """get_ship tells how full the hold is, but not what is in it: that is not read."""
    found = _levels(_parts(lines), "hull", "fuel")
    return {"ship": found} if found else {}


def _levels(parts: Mapping[str, str], *names: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in names:
        if level := _RATIO.match(parts.get(name.capitalize(), "")):
            found |= {name: _number(level[1]), f"max_{name}": _number(level[2])}
    return found


def _cargo(lines: list[str]) -> dict[str, Any]:
    level = _RATIO.match(_parts(lines[:1]).get("Cargo", ""))
    if level is None:
        return {}
    used, capacity = _number(level[1]), _number(level[2])
    return {"cargo": _items(_tables(lines)), "used": used, "capacity": capacity}


def _items(tables: Mapping[str, list[dict[str, str]]]) -> list[dict[str, Any]]:
    """The hold; a text names things without their ids, and the game takes names."""
    return [
        {"item_id": row.get("item", ""), "quantity": _number(row.get("qty", ""))}
        for row in tables.get("Cargo", ())
    ]


def _system(lines: list[str]) -> dict[str, Any]:
    parts, tables = _parts(lines), _tables(lines)
    named = _NAMED.match(parts.get("System", ""))
    if named is None:
        return {
            "in_transit": "In transit" in parts,
            "to_system": parts.get("To system"),
        }
    pois = [
        {**row, "has_base": bool(row.get("base"))} for row in tables.get("POIs", ())
    ]
    ways = tables.get("Connections", [])
    system = {"id": named[2], "name": named[1], "pois": pois, "connections": ways}
    return {"system": system}


def _poi(lines: list[str]) -> dict[str, Any]:
    parts = _parts(lines)
    named = _NAMED.match(parts.get("POI", ""))
    if named is None:
        return {"in_transit": "In transit" in parts, "to_poi": parts.get("To poi")}
    return {"poi": {"id": named[2], "name": named[1], "type": parts.get("Type", "")}}


def _route(lines: list[str]) -> dict[str, Any]:
    return {"route": _tables(lines).get("Route", [])}


def _map(lines: list[str]) -> dict[str, Any]:
    """The systems, where all stand in the text: one that was cut counts for nothing."""
    rows = _tables(lines).get("Systems", [])
    titles = filter(None, map(_TABLE.match, lines))
    told = next((_number(each[2]) for each in titles if each[1] == "Systems"), 0)
    return {"systems": rows} if rows and len(rows) == told else {}


def _search(lines: list[str]) -> dict[str, Any]:
    parts = _parts(lines[:1])
    return {"query": parts.get("Query"), "systems": _tables(lines).get("Systems", [])}


def _news(lines: list[str]) -> dict[str, Any]:
    listed = []
    for row in _tables(lines).get("Notifications", ()):
        try:
            data = json.loads(row.get("data") or "{}")
        except ValueError:
            continue
        listed.append({**row, "data": data})
    return {"count": len(listed), "notifications": listed}


def _sale(lines: list[str]) -> dict[str, Any]:
    sold = _SOLD.match(lines[0])
    if sold is None:
        return {}
    return {
        "quantity_sold": _number(sold[1]),
        "item": sold[2],
        "total_earned": _number(sold[3]),
    }


_READERS: Mapping[str, Callable[[list[str]], dict[str, Any]]] = {
    "get_status": _status,
    "get_ship": _ship,
    "get_cargo": _cargo,
    "get_map": _map,
    "get_system": _system,
    "get_poi": _poi,
    "find_route": _route,
    "search_systems": _search,
    "get_notifications": _news,
    "sell": _sale,
}


def _parts(lines: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in lines:
        if "\t" in line:
            continue
        for part in line.split(" | "):
            label, colon, value = part.partition(": ")
            if colon:
                found.setdefault(label, value.strip())
    return found


def _tables(lines: Sequence[str]) -> dict[str, list[dict[str, str]]]:
    """The tables by title: a line of names, and a line for each row."""
    return {
        titled[1]: list(_rows(lines, place + 1))
        for place, line in enumerate(lines)
        if (titled := _TABLE.match(line))
    }


def _rows(lines: Sequence[str], start: int) -> Iterator[dict[str, str]]:
    names = lines[start].split("\t") if start < len(lines) else []
    for line in lines[start + 1 :]:
        cells = line.split("\t")
        if len(cells) != len(names) or len(names) < 2:
            return
        yield dict(zip(names, cells, strict=True))


def _number(text: str) -> int:
    digits = text.replace(",", "")
    return int(digits) if digits.lstrip("-").isdigit() else 0
