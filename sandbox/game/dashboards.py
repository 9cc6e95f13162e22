"""The texts of API v2: lines, and tables with tabs, in place of JSON.

Recorded forms: login, get_status, get_system, get_poi, get_skills, get_active_missions,
an empty get_notifications, and the results of sell, refuel and dock. All else follows
their manner: parts of a line stand between bars, a table has a title with its count.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from sandbox.game.config import Json

_SHIP = "Ship: {name} ({class_id})"


def render_result(command: str, result: Any) -> str:
    """The text of a command's result."""
    if not isinstance(result, Mapping):
        return str(result)
    render = _FORMS.get(command)
    text = render(dict(result)) if render else _render_any(dict(result))
    for name, words in (
        ("auto_docked", "Automatically docked (required for {})"),
        ("auto_undocked", "Automatically undocked (required for {})"),
    ):
        if result.get(name):
            text = f"{text.rstrip()}\n{words.format(command)}\n"
    return text


def render_state(status: Json, around: Json) -> str:
    """get_status: the account, and what is around it.

    `around` has the name of the system, its connections and security, and who is near.
    """
    player, ship = status["player"], status["ship"]
    power = f"CPU: {_ratio(ship, 'cpu_used', 'cpu_capacity')} | Power: "
    power += _ratio(ship, "power_used", "power_capacity")
    lines = [
        f"{player['username']} [{player['empire']}] | {player['credits']:,}cr"
        f" | {around['system_name']}",
        f"{_SHIP.format(**ship)} | Hull: {_ratio(ship, 'hull', 'max_hull')} | Shield: "
        f"{_ratio(ship, 'shield', 'max_shield')} (+{ship['shield_recharge']}/tick)"
        f" | Armor: {ship['armor']} | Speed: {ship['speed']}",
        f"Fuel: {_ratio(ship, 'fuel', 'max_fuel')} | Cargo: "
        f"{_ratio(ship, 'cargo_used', 'cargo_capacity')} | {power}",
    ]
    if docked := player.get("docked_at_base"):
        lines.append(f"Docked at: {docked}")
    lines.append(f"Security: {around['security']}")
    lines.append(f"Connections: {', '.join(around['connections'])}")
    lines += _table(
        "Nearby players", around["players"], "name ship faction combat status"
    )
    lines += _table("Nearby pirates", around["pirates"], "name tier hull shield")
    lines += _table(
        "Modules", _modules(status["modules"]), "id type slot size wear stats"
    )
    lines += _table("Cargo", around["cargo"], "item qty size", " items")
    lines += _table("Skills", around["skills"], "skill level xp next_level")
    if around["missions"]:
        lines.append(f"Active missions ({len(around['missions'])}/5):")
        lines += [f"- {title}" for title in around["missions"]]
    return _join(lines)


def _modules(modules: list[Json]) -> list[Json]:
    return [
        {
            "id": one["id"],
            "type": one["type_id"],
            "slot": "weapon" if one["type"] == "weapon" else "utility",
            "size": one.get("size", 10),
            "wear": "Pristine",
            "stats": f"mining_power:{one['mining_power']}"
            if "mining_power" in one
            else "",
        }
        for one in modules
    ]


def _login(view: Json) -> str:
    player, session = view["player"], view["session_id"]
    lines = [f"Welcome back, {player['username']}! Session ID: {session}"]
    release = view["release_info"]
    lines.append(f"Latest release: v{release['version']}")
    return "\n".join([*lines, *(f"  - {note}" for note in release["notes"])])


def _register(view: Json) -> str:
    name = view["player"]["username"]
    return (
        f"Welcome, {name}! Session ID: {view['session_id']}\n"
        f"Password: {view['password']}\nSAVE YOUR PASSWORD. Player ID: {view['player_id']}"
    )


def _cargo(view: Json) -> str:
    rows = [_item(one) for one in view["cargo"]]
    used = f"Cargo: {view['used']}/{view['capacity']} | Available: {view['available']}"
    return _join([used, *_table("Cargo", rows, "item qty size", " items")])


def _item(one: Json) -> Json:
    name = one.get("name") or one["item_id"]
    return {"item": name, "qty": f"{one['quantity']:,}", "size": one.get("size", 1)}


def _ship(view: Json) -> str:
    ship = view["ship"]
    lines = [
        f"{_SHIP.format(**ship)} | Hull: {_ratio(ship, 'hull', 'max_hull')} | Shield: "
        f"{_ratio(ship, 'shield', 'max_shield')}",
        f"Fuel: {_ratio(ship, 'fuel', 'max_fuel')} | Cargo: "
        f"{_ratio(ship, 'cargo_used', 'cargo_capacity')}",
    ]
    rows = _modules(view["modules"])
    return _join([*lines, *_table("Modules", rows, "id type slot size wear stats")])


def _system(view: Json) -> str:
    if view.get("in_transit"):
        return _render_any(view)
    system = view["system"]
    empire = f" | Empire: {system['empire']}" if system.get("empire") else ""
    head = f"System: {system['name']} ({system['id']}){empire}"
    places = [
        {**one, "class": "", "base": one.get("base_name", "")} for one in system["pois"]
    ]
    ways = [
        {**one, "distance": f"{one['distance']} GU"} for one in system["connections"]
    ]
    return _join([
        f"{head} | Security: {view['security_status']}",
        *_table("POIs", places, "id name type class base online"),
        *_table("Connections", ways, "system_id name distance"),
    ])  # fmt: skip


def _poi(view: Json) -> str:
    if view.get("in_transit"):
        return _render_any(view)
    poi, base = view["poi"], view.get("base")
    line = f"POI: {poi['name']} ({poi['id']}) | Type: {poi['type']}"
    if base:
        line += f" | Base: {base['name']} ({base['id']})"
    rows = [
        {"resource": one["name"], "supports_power": 1, **one}
        for one in view.get("resources") or ()
    ]
    return _join([
        line, *_table("Resources", rows, "resource richness remaining supports_power")
    ])  # fmt: skip


def _skills(view: Json) -> str:
    rows = [
        {
            "skill": one["skill_id"],
            "name": one["name"],
            "category": one["category"],
            "level": f"{one['level']}/{one['max_level']}",
            "progress": f"{one['current_xp']}/{one['next_level_xp']} XP",
        }
        for one in view["player_skills"]
    ]
    title = f"Skills ({len(rows)} trained, 0-{view.get('max_level', 100)} scale):"
    _, *table = _table("Skills", rows, "skill name category level progress") or [""]
    return _join([title, *table])


def _active_missions(view: Json) -> str:
    if not view.get("missions"):
        return "No active missions."
    return _render_any(view)


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
    sold, wanted = view["quantity_sold"], view.get("unsold", 0)
    text = f"Sold {sold} {view['item']} for {view['total_earned']:,}cr."
    if wanted:
        text += f" {wanted} unsold (no buyers)."
    rows = [
        {
            "qty": one["quantity"],
            "price": f"{one['price_each']}cr",
            "subtotal": f"{one['subtotal']}cr",
            "source": one.get("source", "station"),
            "buyer": one.get("counterparty", ""),
        }
        for one in view.get("fills") or ()
    ]
    if not rows:
        return text
    _, *table = _table("Fills", rows, "qty price subtotal source buyer")
    return _join([text, "Fills:", *table])


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
                one if isinstance(one, Mapping) else {"value": one} for one in value
            ]
            names = list(dict.fromkeys(key for row in rows for key in row))
            lines += _table(_words(name), rows, " ".join(names))
        elif isinstance(value, Mapping):
            inner = " | ".join(f"{_words(k)}: {_cell(v)}" for k, v in value.items())
            lines.append(f"{_words(name)}: {inner}")
    return _join(filter(None, lines))


def _table(title: str, rows: Any, columns: str, more: str = "") -> list[str]:
    """A table with tabs; nothing for no rows."""
    names = columns.split()
    listed = [[_cell(row.get(name)) for name in names] for row in rows]
    if not listed:
        return []
    lines = ["\t".join(names), *("\t".join(row) for row in listed)]
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
