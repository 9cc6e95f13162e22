"""Beliefs from the answers of queries; each reader names the facts it made fresh."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from agents.llm.pilot.answers import (
    Json,
    mapping,
    object_in,
    objects,
    text,
    texts,
    whole,
)
from agents.llm.pilot.beliefs import Beliefs, Chart, Place


def _status(b: Beliefs, data: Json) -> Iterator[str]:
    player, where = mapping(data.get("player")), mapping(data.get("location"))
    yield from _place(b, player, where)
    if player or where:
        b.docked.learn(bool(player.get("docked_at_base") or where.get("docked_at")))
        yield "docked"
    money = whole(player.get("credits"))
    if money is not None:
        b.credits.learn(money)
        yield "credits"
    b.home_base = text(player.get("home_base")) or b.home_base
    b.account = text(player.get("username")) or b.account
    yield from _ship(b, data)


def _place(b: Beliefs, player: Json, where: Json) -> Iterator[str]:
    system = text(player.get("current_system")) or text(where.get("system_id"))
    place = text(player.get("current_poi")) or text(where.get("poi_id"))
    if system:
        b.system.learn(system)
        yield "system"
    if place:
        if place != b.place.value:
            b.barren = b.no_base = False
        b.place.learn(place)
        b.on_the_way = ""
        yield "place"


def _ship(b: Beliefs, data: Json) -> Iterator[str]:
    ship = mapping(data.get("ship"))
    fuel, hull = whole(ship.get("fuel")), whole(ship.get("hull"))
    if fuel is not None:
        b.tank = whole(ship.get("max_fuel")) or b.tank
        b.fuel.learn(fuel)
        yield "fuel"
    if hull is not None:
        b.frame = whole(ship.get("max_hull")) or b.frame
        b.hull.learn(hull)
        yield "hull"
    if "cargo_used" in ship:
        _hold(b, ship.get("cargo"), ship["cargo_used"], ship.get("cargo_capacity"))
        yield "hold"


def _cargo(b: Beliefs, data: Json) -> Iterator[str]:
    if "used" in data or "cargo" in data:
        _hold(b, data.get("cargo"), data.get("used"), data.get("capacity"))
        yield "hold"


def _hold(b: Beliefs, items: object, used: object, capacity: object) -> None:
    held = {
        str(item.get("item_id")): whole(item.get("quantity")) or 0
        for item in objects(items)
    }
    b.hold.learn(held)
    b.used = whole(used)
    if b.used is None:
        b.used = sum(held.values())
    b.capacity = whole(capacity) or b.capacity
    b.full = bool(b.capacity and b.used >= b.capacity)


def _system(b: Beliefs, data: Json) -> Iterator[str]:
    if data.get("in_transit"):
        b.on_the_way = text(data.get("to_system")) or "the destination"
        return
    if chart := chart_of(data):
        b.chart = chart
        b.system.learn(chart.system)
        yield "system"


def chart_of(data: Json) -> Chart | None:
    """A chart from a get_system answer, before or after the change of v0.87."""
    system = mapping(data.get("system"))
    name = text(system.get("id"))
    if not name:
        return None
    listed = objects(data.get("pois")) or objects(system.get("pois"))
    ways = system.get("connections") or data.get("connections")
    named = [text(way.get("system_id")) or text(way.get("id")) for way in objects(ways)]
    return Chart(
        system=name,
        name=text(system.get("name")) or name,
        places=tuple(map(_poi_of, listed)),
        ways=tuple(texts(ways)) or tuple(way for way in named if way),
    )


def _poi_of(item: Json) -> Place:
    kind = str(item.get("type") or "")
    base = bool(item.get("has_base") or item.get("base_id"))
    # The old list does not say which place has a base; stations mostly do.
    if "has_base" not in item and "base_id" not in item:
        base = kind == "station"
    name = str(item.get("id") or "")
    return Place(name, str(item.get("name") or name), kind, base)


def _poi(b: Beliefs, data: Json) -> Iterator[str]:
    if data.get("in_transit"):
        b.on_the_way = text(data.get("to_poi")) or "the destination"
        return
    poi = mapping(data.get("poi"))
    if place := text(poi.get("id")):
        b.place.learn(place)
        yield "place"
    if system := text(poi.get("system_id")):
        b.system.learn(system)
        yield "system"


def _route(b: Beliefs, data: Json) -> Iterator[str]:
    steps = objects(data.get("route"))
    b.route = tuple(name for step in steps if (name := text(step.get("system_id"))))
    yield from ()


def _search(b: Beliefs, data: Json) -> Iterator[str]:
    query = text(data.get("query"))
    found = [text(item.get("system_id")) for item in objects(data.get("systems"))]
    if query is not None:
        first = next((name for name in found if name), "")
        b.found_systems = {**b.found_systems, query.casefold(): first}
    yield from ()


def recalled(b: Beliefs, arguments: Mapping[str, Any], data: Json) -> None:
    """A snapshot's full content, got from the cache: only the chart is used of it."""
    if arguments.get("handle") != "state://get_system":
        return
    inner = data.get("content") or data.get("text") or data
    content = object_in(inner) if isinstance(inner, str) else mapping(inner)
    if (chart := chart_of(content)) and (
        b.chart is None or chart.covers(b.system.value)
    ):
        b.chart = chart


Reader = Callable[[Beliefs, Json], Iterator[str]]

READERS: Mapping[str, Reader] = {
    "get_status": _status,
    "register": _status,
    "login": _status,
    "get_ship": lambda b, data: _ship(b, data),
    "get_cargo": _cargo,
    "get_system": _system,
    "get_poi": _poi,
    "find_route": _route,
    "search_systems": _search,
}
