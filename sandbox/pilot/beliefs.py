"""What the pilot takes for true, and when it asks again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from sandbox.pilot.reading import Json, mapping, object_in, objects, text, texts, whole

T = TypeVar("T")

LIMITS: Mapping[str, int] = {
    "place": 30,
    "system": 30,
    "docked": 30,
    "hold": 30,
    "fuel": 60,
    "hull": 60,
    "credits": 60,
}
"""Ticks after which a fact is too old to act on. Places and ways do not move."""

ASKS: Mapping[str, str] = {"hold": "get_cargo"}
"""The tool that tells a fact, where it is another than get_status."""


@dataclass(slots=True)
class Fact(Generic[T]):
    """A value, whether it counts as known, and what to call where it does not.

    ``firm`` is what a refusal of this turn said.

    The rule of asking again, the same under every context policy:

    A fact is *known* when
    1. the state block shows it, without a mark of an action ("before mine at tick
       104"), without a **Stale data** line for its snapshot, and not older than
       `LIMITS`; or
    2. the answer of a query in view shows it, no own action that changes it was
       accepted after that answer, and it is not older than `LIMITS`, where every
       accepted own action counts as a tick; or
    3. it is what an own accepted action in view leads to (travel: the place; dock,
       undock: the dock; sell: less in the hold; refuel: a full tank), or what an
       error or an event in view says; a refusal takes the expectation back.

    Where the block shows a fact without doubt, the block counts. A rule that needs
    a fact which is not known asks for it, with the tool that the mark names, else
    with the fact's own tool; it never asks for one that is known, nor twice in a
    turn. Facts that only need to be comfortable (fuel, hull, credits) are used
    with the value last shown, known or not.
    """

    value: T | None = None
    known: bool = False
    ask: str = ""
    firm: bool = False

    def learn(self, value: T) -> None:
        """Take a value for true."""
        self.value, self.known, self.ask, self.firm = value, True, "", False

    def doubt(self) -> None:
        """Keep the value, but no longer rely on it."""
        self.known = False


@dataclass(frozen=True, slots=True)
class Place:
    """A point of interest of a system."""

    id: str
    name: str
    kind: str = ""
    base: bool = False

    def is_called(self, name: str | None) -> bool:
        """Whether an id or a name means this place."""
        return name is not None and name.casefold() in (
            self.id.casefold(),
            self.name.casefold(),
        )

    @property
    def minable(self) -> bool:
        """Whether there is something to mine, by its kind."""
        return any(word in self.kind for word in ("asteroid", "gas", "ice"))


@dataclass(frozen=True, slots=True)
class Chart:
    """What get_system tells of the system where the ship is."""

    system: str
    name: str
    places: tuple[Place, ...] = ()
    ways: tuple[str, ...] = ()

    def find(self, name: str | None) -> Place | None:
        """A place by its id or its name."""
        return next((place for place in self.places if place.is_called(name)), None)

    def covers(self, system: str | None) -> bool:
        """Whether it is the chart of that system (id or name)."""
        return system is None or system.casefold() in (
            self.system.casefold(),
            self.name.casefold(),
        )


@dataclass(slots=True)
class Beliefs:
    """Everything the rules decide by.

    ``hold`` is by item (id or name); ``full``, ``digging`` and ``barren`` are
    what errors, figures and accepted calls say of the hold and of this place. ``chart`` is None where no answer in
    view holds it; ``charted`` says that the block shows a get_system snapshot.
    ``route`` are the systems to go through, ``power`` what one mine call brings.
    """

    logged_in: bool | None = None
    account: str = ""
    tick: int | None = None
    place: Fact[str] = field(default_factory=Fact)
    system: Fact[str] = field(default_factory=Fact)
    docked: Fact[bool] = field(default_factory=Fact)
    hold: Fact[dict[str, int]] = field(default_factory=Fact)
    fuel: Fact[int] = field(default_factory=Fact)
    hull: Fact[int] = field(default_factory=Fact)
    credits: Fact[int] = field(default_factory=Fact)
    used: int | None = None
    capacity: int | None = None
    tank: int | None = None
    frame: int | None = None
    full: bool = False
    digging: bool = False
    barren: bool = False
    no_base: bool = False
    on_the_way: str = ""
    arrival: int | None = None
    chart: Chart | None = None
    charted: bool = False
    came_from: str = ""
    home_base: str = ""
    route: tuple[str, ...] = ()
    found_systems: Mapping[str, str] = field(default_factory=dict)
    unsellable: set[str] = field(default_factory=set)

    def facts(
        self,
    ) -> dict[str, Fact[str] | Fact[bool] | Fact[int] | Fact[dict[str, int]]]:
        """The facts that age, by name."""
        return {
            "place": self.place,
            "system": self.system,
            "docked": self.docked,
            "hold": self.hold,
            "fuel": self.fuel,
            "hull": self.hull,
            "credits": self.credits,
        }

    def share(self, fact: Fact[int], most: int | None) -> float:
        """A level as a share of its limit; 1 where it is not known at all."""
        if fact.value is None or not most:
            return 1.0
        return fact.value / most

    @property
    def here(self) -> Place | None:
        """The place on the chart, where both are known."""
        if self.chart is None or not self.chart.covers(self.system.value):
            return None
        return self.chart.find(self.place.value)

    @property
    def chart_here(self) -> Chart | None:
        """The chart, if it is that of the present system."""
        chart = self.chart
        return chart if chart and chart.covers(self.system.value) else None


# SECTION Beliefs from the answers of queries; each reader names the facts it made fresh.


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
