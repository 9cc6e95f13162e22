"""Read the texts in which API v2 answers (API.md section 6): lines, and tables with tabs.

The text stays what it is; here it is read, in the shape of that API's structured content,
where its form is known. A header line has parts between ``|``; a table is a title with
its count, a line of column names and a line for each row; numbers have thousands
separators, and rows no order. What is not recognised stays a text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from memory.gamestate.text_tables import (
    COUNTED,
    NUMBER,
    Table,
    get_rows,
    read_number,
    split_list,
    split_text,
)

# Longer texts are tables of thousands of rows: they are kept, not read.
LONGEST = 400_000

_STATUS = re.compile(
    r"(?P<name>[^\n|]{1,60}?) \[(?P<empire>[a-z]*)\] \| (?P<credits>-?[\d,]+)cr"
    r"(?: \| (?P<system>[^\n|]*))?"
)
_NAMED = re.compile(r"(?P<name>.*) \((?P<id>[^()]*)\)")
_RATIO = re.compile(r"(?P<now>-?[\d,]+(?:\.\d+)?)/(?P<most>-?[\d,]+(?:\.\d+)?)")
_SOLD = re.compile(
    r"Sold (?P<quantity_sold>[\d,]+) (?P<item>.+?) for (?P<total_earned>[\d,]+)cr\."
    r"(?: (?P<unsold>[\d,]+) unsold)?"
)
_REFUELED = re.compile(r"Refueled (?P<fuel>[\d,]+) fuel for (?P<cost>[\d,]+)cr\.")
_DOCKED = re.compile(r"Docked at (?P<base>[^\n]+?)\.(?:\n|$)")
_AUTOMATIC = re.compile(
    r"Automatically (?P<what>docked|undocked)(?: \(required for [^()]*\))?\.?"
)
_EVENT_COLUMNS = {"id", "type", "msg_type", "timestamp", "data"}

Json = dict[str, Any]


def read_dashboard(text: str) -> Mapping[str, Any] | None:
    """What a text says, None where its form is not known; equal texts are read once."""
    return _read(text) if len(text) <= LONGEST else None


@lru_cache(maxsize=256)
def _read(text: str) -> Mapping[str, Any] | None:
    lines = text.rstrip("\n").split("\n")
    for read in _READERS:
        found = read(lines)
        if found is not None:
            return found
    return None


def _read_status(lines: list[str]) -> Json | None:
    """The state of the account: get_status and get_state."""
    head = _STATUS.fullmatch(lines[0].rstrip())
    if head is None:
        return None
    texts, tables = split_text(lines[1:])
    ship = _read_ship(texts)
    found: Json = {
        "player": {
            "username": head["name"].strip(),
            "empire": head["empire"],
            "credits": read_number(head["credits"]),
        },
        "ship": ship,
        "location": _read_location(head["system"], texts, tables),
    }
    found |= _read_lists(tables, empty=ship.get("cargo_used") == 0)
    if missions := _read_missions(lines):
        found["missions"] = missions
    return found


def _read_location(
    system: str | None, texts: Mapping[str, str], tables: Mapping[str, Table]
) -> Json:
    # The text names no place, and no system by its id; events may.
    location: Json = dict.fromkeys(("system_id", "poi_id", "poi_name"))
    location["docked_at"] = texts.get("Docked at")
    if system:
        location["system_name"] = system.strip()
    for key, label in (("poi_name", "POI"), ("security_status", "Security")):
        if label in texts:
            location[key] = texts[label]
    if "Connections" in texts:
        location["connections"] = split_list(texts["Connections"])
    for key in ("players", "pirates"):
        rows = tables.get(f"nearby {key}")
        if rows is not None:
            location[f"nearby_{key}"] = [_rename_name(row) for row in rows]
            location[f"nearby_{key[:-1]}_count"] = len(rows)
    return location


def _read_lists(tables: Mapping[str, Table], *, empty: bool) -> Json:
    """What is aboard, and the skills, as far as a table lists them; ``empty`` is the hold."""
    found: Json = {"cargo": []} if empty else {}
    if (rows := get_rows(tables, "cargo", "item", "qty")) is not None:
        found["cargo"] = [_read_item(row) for row in rows]
    if (rows := get_rows(tables, "modules", "id", "type")) is not None:
        found["modules"] = [_read_module(row) for row in rows]
    if (rows := get_rows(tables, "skills", "skill", "level")) is not None:
        found["skills"] = dict(_read_skill(row) for row in rows)
    return found


def _read_ship(texts: Mapping[str, str]) -> Json:
    ship: Json = {}
    named = _NAMED.fullmatch(texts.get("Ship", ""))
    if named is not None:
        ship |= {"name": named["name"], "class_id": named["id"]}
    for label, now, most in (
        ("Hull", "hull", "max_hull"),
        ("Shield", "shield", "max_shield"),
        ("Fuel", "fuel", "max_fuel"),
        ("Cargo", "cargo_used", "cargo_capacity"),
        ("CPU", "cpu_used", "cpu_capacity"),
        ("Power", "power_used", "power_capacity"),
    ):
        ratio = _RATIO.match(texts.get(label, ""))
        if ratio is not None:
            ship |= {now: read_number(ratio["now"]), most: read_number(ratio["most"])}
    for label in ("Armor", "Speed"):
        if NUMBER.fullmatch(texts.get(label, "")):
            ship[label.lower()] = read_number(texts[label])
    return ship


def _read_ship_alone(lines: list[str]) -> Json | None:
    """get_ship, by the manner of get_status; it was not recorded."""
    if not lines[0].startswith("Ship: "):
        return None
    texts, tables = split_text(lines)
    ship = _read_ship(texts)
    if not {"class_id", "hull", "fuel"} <= ship.keys():
        return None
    rows = get_rows(tables, "modules", "id", "type", "slot")
    modules = {} if rows is None else {"modules": list(map(_read_module, rows))}
    return {"ship": ship, **modules}


def _read_cargo(lines: list[str]) -> Json | None:
    """get_cargo, by the manner of get_status; it was not recorded."""
    if not lines[0].startswith("Cargo: "):
        return None
    texts, tables = split_text(lines)
    ratio = _RATIO.fullmatch(texts.get("Cargo", ""))
    free = read_number(texts.get("Available", ""))
    if ratio is None or free is None:
        return None
    used, most = read_number(ratio["now"]), read_number(ratio["most"])
    rows = get_rows(tables, "cargo", "item", "qty", "size") or []
    if bool(rows) != bool(used):
        return None
    items = [_read_item(row) for row in rows]
    return {"cargo": items, "used": used, "capacity": most, "available": free}


def _read_item(row: Mapping[str, str]) -> Json:
    named = {"item_id": row["item_id"]} if row.get("item_id") else {}
    return {
        **named,
        "item_name": row.get("item", ""),
        "quantity": read_number(row.get("qty", "")) or 0,
        "size": read_number(row.get("size", "")) or 1,
    }


def _read_module(row: Mapping[str, str]) -> Json:
    name = row.get("type", "")
    found = {"module_id": row.get("id", ""), "type_id": name, "name": name}
    return found | {key: row[key] for key in ("slot", "wear") if row.get(key)}


def _read_skill(row: Mapping[str, str]) -> tuple[str, Json]:
    level = read_number(row.get("level", "").partition("/")[0]) or 0
    found: Json = {"level": level}
    if row.get("name"):
        found["name"] = row["name"]
    progress = _RATIO.match(row.get("progress", ""))
    if progress is not None:
        found |= {"xp": read_number(progress["now"])}
        found |= {"next_level_xp": read_number(progress["most"])}
    else:
        found |= {"xp": read_number(row.get("xp", "")) or 0}
        found |= {"next_level_xp": read_number(row.get("next_level", "")) or 0}
    return row.get("skill", ""), found


def _read_missions(lines: list[str]) -> Json | None:
    """A list of lines that begin with a dash, under its title."""
    for place, line in enumerate(lines):
        if line.startswith("Active missions"):
            limit = re.search(r"\((\d+)/(\d+)\)", line)
            listed = []
            for item in lines[place + 1 :]:
                if not item.startswith("- "):
                    break
                named = _NAMED.fullmatch(item[2:])
                title = named["name"] if named else item[2:]
                kind = {"type": named["id"]} if named else {}
                listed.append({"title": title, **kind})
            if limit is None or len(listed) != int(limit[1]):
                return None
            return {"active": listed, "max_missions": int(limit[2])}
    return None


def _read_system(lines: list[str]) -> Json | None:
    if not lines[0].startswith("System: "):
        return None
    texts, tables = split_text(lines)
    named = _NAMED.fullmatch(texts.get("System", ""))
    if named is None:
        return None
    system: Json = {"id": named["id"], "name": named["name"]}
    if texts.get("Empire"):
        system["empire"] = texts["Empire"]
    if (rows := get_rows(tables, "pois", "id", "name", "type")) is not None:
        system["pois"] = [_read_place(row) for row in rows]
    if (rows := get_rows(tables, "connections", "system_id", "name")) is not None:
        system["connections"] = [
            {
                "system_id": row["system_id"],
                "name": row["name"],
                "distance": read_number(row.get("distance", "").split(" ")[0]),
            }
            for row in rows
        ]
    found: Json = {"system": system}
    if "Security" in texts:
        found["security_status"] = system["security_status"] = texts["Security"]
    return found


def _read_place(row: Mapping[str, str]) -> Json:
    found: Json = {key: row.get(key, "") for key in ("id", "name", "type")}
    if row.get("class"):
        found["class"] = row["class"]
    found["has_base"] = bool(row.get("base"))
    if row.get("base"):
        found["base_name"] = row["base"]
    if row.get("online"):
        found["online"] = read_number(row["online"])
    return found


def _read_poi(lines: list[str]) -> Json | None:
    if not lines[0].startswith("POI: "):
        return None
    texts, tables = split_text(lines)
    named = _NAMED.fullmatch(texts["POI"])
    if named is None:
        return None
    kind = _NAMED.fullmatch(texts.get("Type", ""))
    poi: Json = {"id": named["id"], "name": named["name"]}
    poi["type"] = kind["name"] if kind else texts.get("Type", "")
    if kind:
        poi["class"] = kind["id"]
    found: Json = {"poi": poi}
    base = _NAMED.fullmatch(texts.get("Base", ""))
    if base is not None:
        poi["base_id"], found["base"] = (
            base["id"],
            {"id": base["id"], "name": base["name"]},
        )
    if "resources" in tables:
        found["resources"] = [
            {
                "name": row.get("resource", ""),
                **({"resource_id": row["id"]} if row.get("id") else {}),
                "richness": read_number(row.get("richness", "")),
                "remaining": read_number(row.get("remaining", "")),
            }
            for row in tables["resources"]
        ]
    return found


def _read_map(lines: list[str]) -> Json | None:
    """get_map, by the manner of get_system; it was not recorded."""
    if not any(line.startswith("Systems (") for line in lines[:3]):
        return None
    _, tables = split_text(lines)
    rows = get_rows(tables, "systems", "system_id", "name")
    return None if rows is None else {"systems": rows}


def _read_skills(lines: list[str]) -> Json | None:
    if not re.match(r"Skills \(\d+ trained", lines[0]):
        return None
    _, tables = split_text(lines)
    rows = get_rows(tables, "skills", "skill", "level")
    return None if rows is None else {"skills": dict(map(_read_skill, rows))}


def _read_no_missions(lines: list[str]) -> Json | None:
    if lines[0].strip() != "No active missions.":
        return None
    return {"missions": {"active": []}}


def _read_notifications(lines: list[str]) -> Json | None:
    """The game's events; None where there are some whose columns are not known."""
    if lines[0].strip().lower().startswith("no notifications"):
        return {"count": 0, "notifications": [], "remaining": 0}
    titled = COUNTED.fullmatch(lines[0].rstrip())
    if titled is None or titled["title"].lower() != "notifications":
        return None
    left = re.fullmatch(r"(?:, ([\d,]+) remaining)?", titled["more"])
    _, tables = split_text(lines)
    rows = get_rows(tables, "notifications", *_EVENT_COLUMNS)
    if rows is None or left is None:
        return None
    listed = [_read_event(row) for row in rows]
    if not all(listed):
        return None
    remaining = read_number(left[1]) if left[1] else 0
    return {"count": len(listed), "notifications": listed, "remaining": remaining}


def _read_event(row: Mapping[str, str]) -> Json | None:
    try:
        data = json.loads(row.get("data") or "{}")
    except (ValueError, RecursionError):
        return None
    if not row.get("msg_type") or not isinstance(data, dict):
        return None
    known = {key: row[key] for key in ("id", "type", "timestamp") if row.get(key)}
    return {**known, "msg_type": row["msg_type"], "data": data}


def _read_action(lines: list[str]) -> Json | None:
    """What an action's result says of what it changed, as far as that was recorded."""
    text = "\n".join(lines)
    # Lines of their own about the action: not what somebody wrote within the result.
    ends = (lines[0].strip(), lines[-1].strip())
    automatic = filter(None, map(_AUTOMATIC.fullmatch, ends))
    found: Json = {f"auto_{one['what']}": True for one in automatic}
    for pattern, action in ((_SOLD, "sell"), (_REFUELED, "refuel"), (_DOCKED, "dock")):
        said = pattern.match(text)
        if said is None:
            continue
        found["action"] = action
        values = {key: value for key, value in said.groupdict().items() if value}
        words = ("item", "base")
        found |= {k: v if k in words else read_number(v) for k, v in values.items()}
        if action == "refuel":
            # Paid for: the station's, and no fuel cells of the hold.
            found["source"] = "station"
    return found or None


_READERS: tuple[Callable[[list[str]], Json | None], ...] = (
    _read_status,
    _read_ship_alone,
    _read_cargo,
    _read_system,
    _read_poi,
    _read_map,
    _read_skills,
    _read_no_missions,
    _read_notifications,
    _read_action,
)


def _rename_name(row: Mapping[str, str]) -> Json:
    return {("username" if key == "name" else key): v for key, v in row.items() if v}
