"""What the state block shows of each tool's snapshot (GAME_STATE.md section 3).

One reader per tool: content in, facts out. A fact names the JSON paths it was read
from, so that their confidence is that of its line. Shapes of several server versions
are read; what is missing is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

from memory.gamestate.facts import (
    MAX_ITEMS,
    Fact,
    View,
    count_entries,
    list_entries,
    list_objects,
    make_fact,
    read_transit,
)
from memory.gamestate.values import (
    find_first,
    format_empire,
    format_line,
    format_quantity,
    format_ratio,
    is_number,
)

Reader = Callable[[View], Iterable[Fact]]

_MAX_SCALARS = 50
_OF_A_PLACE = ("get_system", "get_poi")


# --- The account's own


def _held(view: View, value: object) -> tuple[tuple[str, str], ...]:
    """Items of a hold as (name, quantity), stacks of one thing added up."""
    held: dict[str, float] = {}
    for item in list_objects(value):
        name = format_line(find_first(item, "name", "item_name")) or view.name(
            item.get("item_id")
        )
        amount = item.get("quantity")
        if name and isinstance(amount, (int, float)):
            held[name] = held.get(name, 0) + amount
    return tuple((name, format_line(amount)) for name, amount in held.items())


def _ship_numbers(view: View) -> Iterator[Fact]:
    prefix = "ship." if isinstance(view.get("ship"), Mapping) else ""
    for name in ("hull", "shield", "fuel"):
        now, most = f"{prefix}{name}", f"{prefix}max_{name}"
        yield from make_fact(
            name.title(), format_ratio(view.get(now), view.get(most)), now, most
        )
    used = ("cargo_used", f"{prefix}cargo_used")
    limit = ("cargo_max", "cargo_capacity", f"{prefix}cargo_capacity")
    children = (
        () if view.cargo_elsewhere else _held(view, view.get(f"{prefix}cargo", "cargo"))
    )
    amount = format_ratio(view.get(*used), view.get(*limit))
    if amount or children:
        paths = (*used, f"{prefix}cargo", "cargo")
        yield Fact("Cargo", amount, paths, children=children, between=" x")


def _read_status(view: View) -> Iterator[Fact]:
    credits = ("player.credits", "credits")
    yield from make_fact("Credits", format_quantity(view.get(*credits)), *credits)
    yield from _location(view)
    yield from read_transit(view)
    ship = view.get("ship.name", "ship.class_id", "ship", "ship_name")
    if not isinstance(ship, Mapping):
        yield from make_fact("Ship", view.name(ship), "ship.name", "ship.class_id")
    yield from _docked(view)
    if not view.ship_elsewhere:
        yield from _ship_numbers(view)


def _location(view: View) -> Iterator[Fact]:
    system = ("location.system_name", "player.current_system", "current_system")
    poi = ("location.poi_name", "player.current_poi", "current_poi")
    names = [view.name(view.get(*system)), view.name(view.get(*poi))]
    where = view.get("location")
    if not any(names) and isinstance(where, str):
        names = [format_line(where)]
    paths = (*system, *poi, "location.system_id", "location.poi_id")
    yield from make_fact("Location", " > ".join(name for name in names if name), *paths)


def _docked(view: View) -> Iterator[Fact]:
    places = ("player.docked_at_base", "location.docked_at", "docked_at_base")
    base = view.get(*places)
    told = view.get("docked", "player.docked", "is_docked")
    paths = (*places, "docked")
    if isinstance(base, str) and base:
        yield Fact("Docked", f"Yes ({view.name(base)})", paths)
    elif isinstance(told, (bool, str)):
        yield from make_fact("Docked", format_line(told), *paths)
    elif isinstance(view.get("player", "location"), Mapping):
        yield Fact("Docked", "No", paths)


def _read_ship(view: View) -> Iterator[Fact]:
    if view.ship_elsewhere:
        yield from make_fact("Ship", view.name(view.get("ship")), "ship.name")
    else:
        yield from _ship_numbers(view)
    modules = list_objects(view.get("modules"))
    kinds = Counter(view.name(m) or view.name(m.get("type_id")) for m in modules)
    shown = tuple(n if k == 1 else f"{n} x{k}" for n, k in kinds.items() if n)
    if shown:
        yield Fact("Modules", "", ("modules",), items=shown)


def _read_cargo(view: View) -> Iterator[Fact]:
    amount = format_ratio(
        view.get("used", "cargo_used"), view.get("capacity", "cargo_capacity")
    )
    children = _held(view, view.get("cargo", "items"))
    paths = ("cargo", "used", "items", "cargo_used")
    if amount or children:
        yield Fact("Cargo", amount, paths, children=children, between=" x")


def _read_skills(view: View) -> Iterator[Fact]:
    """get_skills: levels; both shapes (a list of the player's, a map by id)."""
    listed = view.get("player_skills")
    place = "skills" if listed is None else "player_skills"
    known = view.get(place)
    if isinstance(known, Mapping):
        found = islice(known.items(), MAX_ITEMS)
        pairs = [(_skill(view, value) or view.name(key), value) for key, value in found]
    else:
        pairs = [(_skill(view, item), item) for item in list_objects(known)]
    shown = tuple(f"{name} {_level(value)}" for name, value in pairs if name)
    yield Fact("Levels", "" if shown else "none", (place,), items=shown)


def _skill(view: View, value: object) -> str:
    if not isinstance(value, Mapping):
        return ""
    return format_line(value.get("name")) or view.name(value.get("skill_id"))


def _level(value: object) -> str:
    level = value.get("level") if isinstance(value, Mapping) else value
    return format_line(level) or "?"


def _read_missions(view: View) -> Iterator[Fact]:
    active = list(list_objects(view.get("missions.active", "missions")))
    limit = view.get("max_missions", "missions.max_missions")
    yield Fact(
        "Active",
        format_ratio(len(active), limit),
        ("missions.*",),
        children=tuple(
            (
                view.name(item) or format_line(item.get("mission_id")) or "mission",
                _progress(item),
            )
            for item in active
        ),
    )


def _progress(item: Mapping[str, object]) -> str:
    done = format_ratio(item.get("current"), item.get("required"))
    share = item.get("percent_complete")
    return done or (f"{format_line(share)} %" if is_number(share) else "")


# --- Where the ship is


def _read_system(view: View) -> Iterator[Fact]:
    """get_system: name, places, ways out; both shapes of v0.87."""
    name = view.name(view.get("system.name", "name", "system"))
    ruler = format_empire(view.get("system.empire", "empire"))
    if name:
        text = f"{name} ({ruler})" if ruler else name
        yield Fact("", text, ("system.name", "name"))
    yield from _list(view, "POIs", ("pois", "system.pois"))
    yield from _list(view, "Connections", ("system.connections", "connections"))
    security = ("security_status", "system.security_status")
    yield from make_fact("Security", format_line(view.get(*security)), *security)


def _list(view: View, label: str, places: tuple[str, ...]) -> Iterator[Fact]:
    """The names in the longest of several lists: old servers trim one of two."""
    lists = [[*map(view.name, list_entries(view.get(place)))] for place in places]
    names = tuple(name for name in max(lists, key=len) if name)
    if names:
        paths = tuple(f"{place}.*.name" for place in places)
        yield Fact(label, "", paths, items=names)


def _read_poi(view: View) -> Iterator[Fact]:
    name = view.name(view.get("poi"))
    kind = format_line(view.get("poi.type")).replace("_", " ")
    if name:
        yield Fact("", f"{name} ({kind})" if kind else name, ("poi.name",))
    found = view.get("resources") or view.get("poi.resources")
    resources = tuple(
        (view.name(item) or view.name(item.get("resource_id")), _left(item))
        for item in list_objects(found)
    )
    if resources:
        yield Fact("Resources", "", ("resources", "poi.resources"), children=resources)
    base = view.get("base", "poi.base_id")
    yield from make_fact("Base", view.name(base), "base.name", "poi.base_id")


def _left(item: Mapping[str, object]) -> str:
    remaining = item.get("remaining")
    if is_number(remaining) and remaining == -1:
        return "unlimited"
    most = item.get("max_remaining")
    return f"{format_ratio(remaining, most)} left" if is_number(remaining) else ""


def _read_base(view: View) -> Iterator[Fact]:
    name = view.name(view.get("base"))
    ruler = format_empire(view.get("base.empire"))
    if name:
        yield Fact("", f"{name} ({ruler})" if ruler else name, ("base.name",))
    places = ("base.services", "services")
    offered = view.get(*places)
    if isinstance(offered, Mapping):
        offered = [key for key, there in offered.items() if there]
    services = tuple(n for n in map(format_line, list_entries(offered)) if n)
    if services:
        yield Fact("Services", "", places, items=services)
    state = "condition.condition"
    yield from make_fact("Condition", format_line(view.get(state)), state)


def _read_nearby(view: View) -> Iterator[Fact]:
    for label, places, counts in (
        ("Players", ("nearby", "players"), ("count", "player_count")),
        ("Pirates", ("pirates",), ("pirate_count",)),
    ):
        there = view.get(*places)
        count = view.get(*counts)
        shown = count if is_number(count) else count_entries(there)
        names = tuple(n for n in map(view.name, list_entries(there)) if n)
        yield Fact(label, format_quantity(shown), (*places, *counts), items=names)


def _read_market(view: View) -> Iterator[Fact]:
    yield from make_fact("At", view.name(view.get("base")), "base")
    offers = view.get("items", "listings")
    lines = [
        (
            format_line(offer.get("item_name")) or view.name(offer.get("item_id")),
            _format_prices(offer),
        )
        for offer in list_objects(offers)
    ]
    yield Fact(
        "Items",
        format_quantity(count_entries(offers)),
        ("items", "listings"),
        children=tuple(pair for pair in lines if all(pair)),
    )


def _format_prices(offer: Mapping[str, object]) -> str:
    """What the station asks and pays; a price of 0 means that it does not trade."""
    asks = find_first(offer, "best_sell", "sell_price", "price_each", "price")
    pays = find_first(offer, "best_buy", "buy_price")
    words = [
        f"{verb} {format_quantity(price)}"
        for verb, price in (("sells for", asks), ("buys for", pays))
        if is_number(price) and price != 0
    ]
    return ", ".join(words)


def _read_galaxy(view: View) -> Iterator[Fact]:
    """get_map: only how much of it is known, as it is too big to show."""
    count = count_entries(view.get("systems"))
    yield Fact("", f"{format_quantity(count)} systems cached", ("systems.*.name",))
    yield Fact("", "Use get_map to refresh full galaxy data")


# --- Any tool

# The heading and reader of each known tool, in the order of their sections.
READERS: Mapping[str, tuple[str, Reader]] = {
    "get_status": ("Status", _read_status),
    "get_ship": ("Ship", _read_ship),
    "get_cargo": ("Cargo", _read_cargo),
    "get_system": ("System", _read_system),
    "get_poi": ("POI", _read_poi),
    "get_base": ("Base", _read_base),
    "get_nearby": ("Nearby", _read_nearby),
    "view_market": ("Market", _read_market),
    "get_map": ("Map", _read_galaxy),
    "get_skills": ("Skills", _read_skills),
    "get_active_missions": ("Missions", _read_missions),
}


def _read_generic(content: object) -> Iterator[Fact]:
    """Any other snapshot: scalars at the top, sizes of lists, lines of a text."""
    if isinstance(content, str):
        for text in content[:4000].splitlines():
            if format_line(text):
                yield Fact("", format_line(text, 100))
        return
    if isinstance(content, list):
        yield Fact("Entries", format_quantity(len(content)))
        return
    if not isinstance(content, Mapping):
        yield from make_fact("Value", format_line(content))
        return
    for key, value in islice(content.items(), _MAX_SCALARS):
        label = format_line(str(key).replace("_", " "), 40).capitalize()
        if isinstance(value, (list, Mapping)):
            yield Fact(label, f"{format_quantity(len(value))} entries", (str(key),))
        elif value is not None:
            yield from make_fact(label, format_line(value), str(key))


def read_facts(tool: str, view: View, content: object) -> list[Fact]:
    """The facts of a snapshot by its tool's reader; by the general one where that
    finds nothing."""
    facts: list[Fact] = []
    if tool in READERS and isinstance(content, Mapping):
        in_flight = tool in _OF_A_PLACE and view.get("in_transit") is True
        facts = list(read_transit(view) if in_flight else READERS[tool][1](view))
    return facts or list(_read_generic(content))
