"""The texts of API v2: lines, and tables with tabs, in place of JSON.

Recorded forms: login, get_status, get_system, get_poi, get_skills, get_active_missions,
an empty get_notifications, and the results of sell, refuel and dock. All else follows
their manner: parts of a line stand between bars, a table has a title with its count.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sandbox.game.config import Json

_MODULES = "id type=type_id slot size wear stats"
_ITEMS = "item qty size"


def render_result(command: str, result: Any) -> str:
    """The text of a command's result."""
    if not isinstance(result, Mapping):
        return str(result)
    text = _FORMS.get(command, _render_any)(dict(result))
    for move in ("dock", "undock"):
        if result.get(f"auto_{move}ed"):
            words = f"Automatically {move}ed (required for {command})"
            text = f"{text.rstrip()}\n{words}\n"
    return text


def render_state(status: Json, around: Json) -> str:
    """get_status: the account, and what is around it.

    `around` has the system, who is near (none on the way), and the account's cargo,
    skills and missions, each as its own query answers.
    """
    player, ship = status["player"], status["ship"]
    system, near = around["system"], around["near"]
    power = f"CPU: {_ratio(ship, 'cpu_used', 'cpu_capacity')} | Power: "
    power += _ratio(ship, "power_used", "power_capacity")
    lines = [
        f"{player['username']} [{player['empire']}] | {player['credits']:,}cr"
        f" | {system['name']}",
        f"{_hull(ship)} (+{ship['shield_recharge']}/tick)"
        f" | Armor: {ship['armor']} | Speed: {ship['speed']}",
        f"{_tank(ship)} | {power}",
    ]
    if docked := player.get("docked_at_base"):
        lines.append(f"Docked at: {docked}")
    lines.append(f"Security: {around['security']}")
    lines.append(f"Connections: {', '.join(system['connections'])}")
    others = [
        {**one, "combat": "yes" if one.get("in_combat") else "", "status": "online"}
        for one in near.get("nearby") or ()
    ]
    lines += _table(
        "Nearby players",
        others,
        "name=username ship=ship_class faction=clan_tag combat status",
    )
    lines += _table(
        "Nearby pirates", near.get("pirates") or (), "name tier hull shield"
    )
    lines += _table("Modules", map(_module, status["modules"]), _MODULES)
    lines += _table("Cargo", map(_item, around["cargo"]), _ITEMS, " items")
    lines += _table(
        "Skills",
        around["skills"],
        "skill=skill_id level xp=current_xp next_level=next_level_xp",
    )
    missions = around["missions"] or ()
    if missions:
        lines.append(f"Active missions ({len(missions)}/5):")
        lines += [f"- {one['title']} ({one['type']})" for one in missions]
    return _join(lines)


def _hull(ship: Json) -> str:
    return (
        f"Ship: {ship['name']} ({ship['class_id']}) | Hull: "
        f"{_ratio(ship, 'hull', 'max_hull')} | Shield: "
        f"{_ratio(ship, 'shield', 'max_shield')}"
    )


def _tank(ship: Json) -> str:
    used = _ratio(ship, "cargo_used", "cargo_capacity")
    return f"Fuel: {_ratio(ship, 'fuel', 'max_fuel')} | Cargo: {used}"


def _module(one: Json) -> Json:
    power = one.get("mining_power")
    return {
        "size": 10,
        **one,
        "slot": "weapon" if one["type"] == "weapon" else "utility",
        "wear": "Pristine",
        "stats": "" if power is None else f"mining_power:{power}",
    }


def _item(one: Json) -> Json:
    return {"size": 1, **one, "item": one["name"], "qty": f"{one['quantity']:,}"}


def _login(view: Json) -> str:
    player, release = view["player"], view["release_info"]
    lines = [f"Welcome back, {player['username']}! Session ID: {view['session_id']}"]
    lines.append(f"Latest release: v{release['version']}")
    return "\n".join([*lines, *(f"  - {note}" for note in release["notes"])])


def _register(view: Json) -> str:
    name = view["player"]["username"]
    return (
        f"Welcome, {name}! Session ID: {view['session_id']}\n"
        f"Password: {view['password']}\nSAVE YOUR PASSWORD. Player ID: {view['player_id']}"
    )


def _cargo(view: Json) -> str:
    used = f"Cargo: {view['used']}/{view['capacity']} | Available: {view['available']}"
    return _join([used, *_table("Cargo", map(_item, view["cargo"]), _ITEMS, " items")])


def _ship(view: Json) -> str:
    modules = _table("Modules", map(_module, view["modules"]), _MODULES)
    return _join([_hull(view["ship"]), _tank(view["ship"]), *modules])


def _system(view: Json) -> str:
    if view.get("in_transit"):
        return _render_any(view)
    system = view["system"]
    empire = f" | Empire: {system['empire']}" if system.get("empire") else ""
    head = f"System: {system['name']} ({system['id']}){empire}"
    ways = system["connections"]
    ways = [{**one, "distance": f"{one['distance']} GU"} for one in ways]
    return _join([
        f"{head} | Security: {view['security_status']}",
        *_table("POIs", system["pois"], "id name type class base=base_name online"),
        *_table("Connections", ways, "system_id name distance"),
    ])  # fmt: skip


def _poi(view: Json) -> str:
    if view.get("in_transit"):
        return _render_any(view)
    poi, base = view["poi"], view.get("base")
    line = f"POI: {poi['name']} ({poi['id']}) | Type: {poi['type']}"
    if base:
        line += f" | Base: {base['name']} ({base['id']})"
    rows = [{**one, "supports_power": 1} for one in view.get("resources") or ()]
    columns = "resource=name richness remaining supports_power"
    return _join([line, *_table("Resources", rows, columns)])


def _skills(view: Json) -> str:
    rows = [
        {
            **one,
            "level": f"{one['level']}/{one['max_level']}",
            "progress": f"{one['current_xp']}/{one['next_level_xp']} XP",
        }
        for one in view["player_skills"]
    ]
    title = f"Skills ({len(rows)} trained, 0-{view.get('max_level', 100)} scale):"
    columns = "skill=skill_id name category level progress"
    return _join([title, *_table("", rows, columns)[1:]])


def _active_missions(view: Json) -> str:
    return _render_any(view) if view.get("missions") else "No active missions."


def _notifications(view: Json) -> str:
    rows = [
        {**one, "data": json.dumps(one["data"], ensure_ascii=False)}
        for one in view["notifications"] or ()
    ]
    if not rows:
        return "No notifications."
    left = f", {view['remaining']} remaining" if view["remaining"] else ""
    return _join(_table("Notifications", rows, "id type msg_type timestamp data", left))


def _sell(view: Json) -> str:
    sold, left = view["quantity_sold"], view.get("unsold", 0)
    text = f"Sold {sold} {view['item']} for {view['total_earned']:,}cr."
    if left:
        text += f" {left} unsold (no buyers)."
    fills = view.get("fills") or ()
    if not fills:
        return text
    rows = [
        {
            "source": "station",
            **one,
            "price": f"{one['price_each']}cr",
            "subtotal": f"{one['subtotal']}cr",
        }
        for one in fills
    ]
    columns = "qty=quantity price subtotal source buyer=counterparty"
    return _join([text, "Fills:", *_table("", rows, columns)[1:]])


def _refuel(view: Json) -> str:
    added = view.get("fuel", 0)
    if view.get("source") == "station":
        return f"Refueled {added} fuel for {view.get('cost', 0):,}cr."
    return f"Refueled {added} fuel from {view.get('cells_used', 0)} fuel cells."


_FORMS: Mapping[str, Callable[[Json], str]] = {
    "login": _login,
    "register": _register,
    "logout": lambda view: str(view["message"]),
    "get_cargo": _cargo,
    "get_ship": _ship,
    "get_system": _system,
    "get_poi": _poi,
    "get_skills": _skills,
    "get_active_missions": _active_missions,
    "get_notifications": _notifications,
    "sell": _sell,
    "refuel": _refuel,
    "dock": lambda view: f"Docked at {view['base']}.",
    "undock": lambda view: "Undocked.",
    "travel": lambda view: f"Arrived at {view['poi']}.",
    "jump": lambda view: f"Jumped to {view['system']}.",
    "mine": lambda view: f"Mined {view['quantity']} {view['resource_name']}.",
}


def _render_any(view: Json) -> str:
    """Plain values in a line, lists as tables, objects as lines of their own."""
    plain = {k: v for k, v in view.items() if not isinstance(v, Mapping | list)}
    lines = [" | ".join(f"{_words(k)}: {_cell(v)}" for k, v in plain.items())]
    for name, value in view.items():
        if isinstance(value, list):
            rows = [
                dict(one) if isinstance(one, Mapping) else {"value": one}
                for one in value
            ]
            names = list(dict.fromkeys(key for row in rows for key in row))
            lines += _table(_words(name), rows, " ".join(names))
        elif isinstance(value, Mapping):
            inner = " | ".join(f"{_words(k)}: {_cell(v)}" for k, v in value.items())
            lines.append(f"{_words(name)}: {inner}")
    return _join(filter(None, lines))


def _table(title: str, rows: Iterable[Json], columns: str, more: str = "") -> list[str]:
    """A table with tabs; nothing for no rows. A column is `name` or `title=name`."""
    pairs = [column.partition("=") for column in columns.split()]
    listed = [[_cell(row.get(key or name)) for name, _, key in pairs] for row in rows]
    if not listed:
        return []
    heads = "\t".join(name for name, _, _ in pairs)
    lines = [heads, *("\t".join(row) for row in listed)]
    return [f"{title} ({len(listed)}{more}):", *lines]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return " ".join(f"{k}:{_cell(v)}" for k, v in value.items())
    if isinstance(value, list):
        return ", ".join(map(_cell, value))
    return str(value).replace("\t", " ").replace("\n", " ")


def _words(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _ratio(view: Json, now: str, most: str) -> str:
    return f"{view[now]}/{view[most]}"


def _join(lines: Any) -> str:
    return "".join(f"{line}\n" for line in lines)
