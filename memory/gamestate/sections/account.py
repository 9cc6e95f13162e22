"""The account's own things: status, ship, hold, skills, missions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from memory.gamestate.paths import first
from memory.gamestate.sections.fact import (
    MAX_ITEMS,
    Fact,
    View,
    dicts_of,
    fact,
    transit,
)
from memory.gamestate.text import is_number, line, quantity, ratio


def _held(view: View, value: object) -> tuple[tuple[str, str], ...]:
    """Items of a hold as (name, quantity), stacks of one thing added up."""
    held: dict[str, float] = {}
    for item in dicts_of(value):
        name = line(first(item, "name", "item_name")) or view.name(item.get("item_id"))
        amount = item.get("quantity")
        if name and isinstance(amount, (int, float)):
            held[name] = held.get(name, 0) + amount
    return tuple((name, line(amount)) for name, amount in held.items())


def _ship_numbers(view: View) -> Iterator[Fact]:
    prefix = "ship." if isinstance(view.get("ship"), Mapping) else ""
    for name in ("hull", "shield", "fuel"):
        now, most = f"{prefix}{name}", f"{prefix}max_{name}"
        yield from fact(name.title(), ratio(view.get(now), view.get(most)), now, most)
    used = ("cargo_used", f"{prefix}cargo_used")
    limit = ("cargo_max", "cargo_capacity", f"{prefix}cargo_capacity")
    children = (
        () if view.cargo_elsewhere else _held(view, view.get(f"{prefix}cargo", "cargo"))
    )
    amount = ratio(view.get(*used), view.get(*limit))
    if amount or children:
        paths = (*used, f"{prefix}cargo", "cargo")
        yield Fact("Cargo", amount, paths, children=children, between=" x")


def status(view: View) -> Iterator[Fact]:
    """get_status: money, place, ship, dock; the ship's numbers if nothing newer."""
    credits = ("player.credits", "credits")
    yield from fact("Credits", quantity(view.get(*credits)), *credits)
    yield from _location(view)
    yield from transit(view)
    ship = view.get("ship.name", "ship.class_id", "ship", "ship_name")
    if not isinstance(ship, Mapping):
        yield from fact("Ship", view.name(ship), "ship.name", "ship.class_id")
    yield from _docked(view)
    if not view.ship_elsewhere:
        yield from _ship_numbers(view)


def _location(view: View) -> Iterator[Fact]:
    system = ("location.system_name", "player.current_system", "current_system")
    poi = ("location.poi_name", "player.current_poi", "current_poi")
    names = [view.name(view.get(*system)), view.name(view.get(*poi))]
    where = view.get("location")
    if not any(names) and isinstance(where, str):
        names = [line(where)]
    paths = (*system, *poi, "location.system_id", "location.poi_id")
    yield from fact("Location", " > ".join(name for name in names if name), *paths)


def _docked(view: View) -> Iterator[Fact]:
    places = ("player.docked_at_base", "location.docked_at", "docked_at_base")
    base = view.get(*places)
    told = view.get("docked", "player.docked", "is_docked")
    paths = (*places, "docked")
    if isinstance(base, str) and base:
        yield Fact("Docked", f"Yes ({view.name(base)})", paths)
    elif isinstance(told, (bool, str)):
        yield from fact("Docked", line(told), *paths)
    elif isinstance(view.get("player", "location"), Mapping):
        yield Fact("Docked", "No", paths)


def ship(view: View) -> Iterator[Fact]:
    """get_ship: condition, fuel, hold, modules."""
    if view.ship_elsewhere:
        yield from fact("Ship", view.name(view.get("ship")), "ship.name")
    else:
        yield from _ship_numbers(view)
    kinds: dict[str, int] = {}
    for module in dicts_of(view.get("modules")):
        name = view.name(module) or view.name(module.get("type_id"))
        kinds[name] = kinds.get(name, 0) + 1
    shown = tuple(n if k == 1 else f"{n} x{k}" for n, k in kinds.items() if n)
    if shown:
        yield Fact("Modules", "", ("modules",), items=shown)


def cargo(view: View) -> Iterator[Fact]:
    """get_cargo: how full, and of what."""
    amount = ratio(
        view.get("used", "cargo_used"), view.get("capacity", "cargo_capacity")
    )
    children = _held(view, view.get("cargo", "items"))
    paths = ("cargo", "used", "items", "cargo_used")
    if amount or children:
        yield Fact("Cargo", amount, paths, children=children, between=" x")


def skills(view: View) -> Iterator[Fact]:
    """get_skills: levels; both shapes (a list of the player's, a map by id)."""
    listed = view.get("player_skills")
    place = "skills" if listed is None else "player_skills"
    known = view.get(place)
    if isinstance(known, Mapping):
        found = islice(known.items(), MAX_ITEMS)
        pairs = [(_skill(view, value) or view.name(key), value) for key, value in found]
    else:
        pairs = [(_skill(view, item), item) for item in dicts_of(known)]
    shown = tuple(f"{name} {_level(value)}" for name, value in pairs if name)
    yield Fact("Levels", "" if shown else "none", (place,), items=shown)


def _skill(view: View, value: object) -> str:
    if not isinstance(value, Mapping):
        return ""
    return line(value.get("name")) or view.name(value.get("skill_id"))


def _level(value: object) -> str:
    level = value.get("level") if isinstance(value, Mapping) else value
    return line(level) or "?"


def missions(view: View) -> Iterator[Fact]:
    """get_active_missions: which, and how far."""
    active = list(dicts_of(view.get("missions.active", "missions")))
    limit = view.get("max_missions", "missions.max_missions")
    yield Fact(
        "Active",
        ratio(len(active), limit),
        ("missions.*",),
        children=tuple((_mission(view, item), _progress(item)) for item in active),
    )


def _mission(view: View, item: Mapping[str, object]) -> str:
    return view.name(item) or line(item.get("mission_id")) or "mission"


def _progress(item: Mapping[str, object]) -> str:
    done = ratio(item.get("current"), item.get("required"))
    share = item.get("percent_complete")
    return done or (f"{line(share)} %" if is_number(share) else "")
