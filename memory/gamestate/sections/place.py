"""The place where the ship is, and what is around: system, POI, base, market, map."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memory.gamestate.paths import first
from memory.gamestate.sections.fact import (
    Fact,
    View,
    count_of,
    dicts_of,
    fact,
    items_of,
    transit,
)
from memory.gamestate.text import empire, is_number, line, quantity, ratio


def system(view: View) -> Iterator[Fact]:
    """get_system: name, places, ways out; both shapes of v0.87."""
    if view.get("in_transit") is True:
        yield from transit(view)
        return
    name = view.name(view.get("system.name", "name", "system"))
    ruler = empire(view.get("system.empire", "empire"))
    if name:
        text = f"{name} ({ruler})" if ruler else name
        yield Fact("", text, ("system.name", "name"))
    yield from _list(view, "POIs", ("pois", "system.pois"))
    yield from _list(view, "Connections", ("system.connections", "connections"))
    security = ("security_status", "system.security_status")
    yield from fact("Security", line(view.get(*security)), *security)


def _list(view: View, label: str, places: tuple[str, ...]) -> Iterator[Fact]:
    """Names of the longest of several lists: old servers trim one of two."""
    lists = [[*map(view.name, items_of(view.get(place)))] for place in places]
    names = tuple(name for name in max(lists, key=len) if name)
    if names:
        paths = tuple(f"{place}.*.name" for place in places)
        yield Fact(label, "", paths, items=names)


def poi(view: View) -> Iterator[Fact]:
    """get_poi: what this place is, what can be mined, which base is there."""
    if view.get("in_transit") is True:
        yield from transit(view)
        return
    name = view.name(view.get("poi"))
    kind = line(view.get("poi.type")).replace("_", " ")
    if name:
        yield Fact("", f"{name} ({kind})" if kind else name, ("poi.name",))
    found = view.get("resources") or view.get("poi.resources")
    resources = tuple(
        (view.name(item) or view.name(item.get("resource_id")), _left(item))
        for item in dicts_of(found)
    )
    if resources:
        yield Fact("Resources", "", ("resources", "poi.resources"), children=resources)
    base = view.get("base", "poi.base_id")
    yield from fact("Base", view.name(base), "base.name", "poi.base_id")


def _left(item: Mapping[str, object]) -> str:
    remaining = item.get("remaining")
    if is_number(remaining) and remaining == -1:
        return "unlimited"
    most = item.get("max_remaining")
    return f"{ratio(remaining, most)} left" if is_number(remaining) else ""


def base(view: View) -> Iterator[Fact]:
    """get_base: which one, what it offers, how it fares."""
    name = view.name(view.get("base"))
    ruler = empire(view.get("base.empire"))
    if name:
        yield Fact("", f"{name} ({ruler})" if ruler else name, ("base.name",))
    places = ("base.services", "services")
    offered = view.get(*places)
    if isinstance(offered, Mapping):
        offered = [key for key, there in offered.items() if there]
    services = tuple(n for n in map(line, items_of(offered)) if n)
    if services:
        yield Fact("Services", "", places, items=services)
    state = "condition.condition"
    yield from fact("Condition", line(view.get(state)), state)


def nearby(view: View) -> Iterator[Fact]:
    """get_nearby: who is here."""
    for label, places, counts in (
        ("Players", ("nearby", "players"), ("count", "player_count")),
        ("Pirates", ("pirates",), ("pirate_count",)),
    ):
        there = view.get(*places)
        count = view.get(*counts)
        shown = count if is_number(count) else count_of(there)
        names = tuple(n for n in map(view.name, items_of(there)) if n)
        yield Fact(label, quantity(shown), (*places, *counts), items=names)


def market(view: View) -> Iterator[Fact]:
    """view_market: prices, best first known."""
    yield from fact("At", view.name(view.get("base")), "base")
    offers = view.get("items", "listings")
    lines = ((_item(view, offer), _prices(offer)) for offer in dicts_of(offers))
    yield Fact(
        "Items",
        quantity(count_of(offers)),
        ("items", "listings"),
        children=tuple(pair for pair in lines if all(pair)),
    )


def _item(view: View, offer: Mapping[str, object]) -> str:
    return line(offer.get("item_name")) or view.name(offer.get("item_id"))


def _prices(offer: Mapping[str, object]) -> str:
    """What the station pays and what it asks; 0 means that nobody does."""
    pays, asks = (
        first(offer, "best_buy", "buy_price"),
        first(offer, "best_sell", "sell_price", "price_each", "price"),
    )
    words = [
        f"{verb} {quantity(price)}"
        for verb, price in (("sells for", asks), ("buys for", pays))
        if is_number(price) and price != 0
    ]
    return ", ".join(words)


def galaxy(view: View) -> Iterator[Fact]:
    """get_map: only how much of it is known; it is too big to show."""
    count = count_of(view.get("systems"))
    yield Fact("", f"{quantity(count)} systems cached", ("systems.*.name",))
    yield Fact("", "Use get_map to refresh full galaxy data")
