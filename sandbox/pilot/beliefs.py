"""What the pilot believes, which queries it learns that from, and when it asks again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from sandbox.pilot.reading import (
    Json,
    as_mapping,
    as_objects,
    as_text,
    as_texts,
    as_whole,
    find_object,
)

T = TypeVar("T")

# Ticks after which a fact is too old to act on. Places and ways do not move.
LIMITS: Mapping[str, int] = {
    "place": 30,
    "system": 30,
    "docked": 30,
    "hold": 30,
    "fuel": 60,
    "hull": 60,
    "credits": 60,
}
# The tool that tells a fact, where it is another than get_status.
ASKS: Mapping[str, str] = {"hold": "get_cargo"}
# The same where get_status is a text that names no place (API v2).
GROUPED_ASKS = {"hold": "get_cargo", "place": "get_poi", "system": "get_system"}


@dataclass(slots=True)
class Fact(Generic[T]):
    """A value, whether it is known, and the tool to ask where it is not.

    ``firm``: a refusal of this turn said so.

    When the pilot asks, under every context policy: a fact is *known* if
    1. the state block shows it, without a mark of an action ("before mine at tick
       104"), without a **Stale data** line for its snapshot, and not older than
       `LIMITS`; or
    2. the answer of a query in view shows it, no own action that changes it was
       accepted after that answer, and it is not older than `LIMITS`, where every
       accepted own action counts as a tick; or
    3. it follows from an own accepted action in view (travel: the place; dock,
       undock: the dock; sell: less in the hold; refuel: a full tank), or from an
       error or an event in view; a refusal takes the expectation back.

    What the block shows without doubt wins. A rule that needs a fact which is not known
    asks for it, with the tool that the mark names, else with the fact's own tool; it
    never asks for a known one, nor twice in a turn. Fuel, hull and credits are used with
    the value last shown, known or not.
    """

    value: T | None = None
    known: bool = False
    ask: str = ""
    firm: bool = False

    def learn(self, value: T) -> None:
        """Take a value for true."""
        self.value, self.known, self.ask, self.firm = value, True, "", False

    def doubt(self) -> None:
        """Keep the value, but do not rely on it."""
        self.known = False


@dataclass(slots=True)
class Level(Fact[int]):
    """A fact with a limit: fuel by the tank, hull by its frame."""

    most: int | None = None

    @property
    def share(self) -> float:
        """The level as a share of its limit; 1 where it is not known at all."""
        return self.value / self.most if self.value is not None and self.most else 1.0

    def fill(self) -> None:
        """Learn that the limit is reached, where it is known."""
        if self.most:
            self.learn(self.most)


def _is_named(word: str, *names: str) -> bool:
    return word.casefold() in map(str.casefold, names)


@dataclass(frozen=True, slots=True)
class Place:
    id: str
    name: str
    kind: str = ""
    base: bool = False

    def is_called(self, name: str | None) -> bool:
        """Whether an id or a name means this place."""
        return name is not None and _is_named(name, self.id, self.name)

    @property
    def minable(self) -> bool:
        """Whether there is something to mine, by its kind."""
        return any(word in self.kind for word in ("asteroid", "gas", "ice"))


@dataclass(frozen=True, slots=True)
class Chart:
    """The system where the ship is, from get_system."""

    system: str
    name: str
    places: tuple[Place, ...] = ()
    ways: tuple[str, ...] = ()

    def find(self, name: str | None) -> Place | None:
        """A place by its id or its name."""
        return next((place for place in self.places if place.is_called(name)), None)

    def covers(self, system: str | None) -> bool:
        """Whether it is the chart of that system (id or name)."""
        return system is None or _is_named(system, self.system, self.name)


@dataclass(slots=True)
class Beliefs:
    """Everything that the rules decide by.

    ``hold`` is by item (id or name). ``full``, ``digging`` and ``barren`` are what
    errors, figures and accepted calls say about the hold and this place. ``chart`` is
    None where no answer in view has it; ``charted``: the block shows a get_system
    snapshot. ``route`` are the systems to go through.
    """

    logged_in: bool | None = None
    account: str = ""
    tick: int | None = None
    place: Fact[str] = field(default_factory=Fact)
    system: Fact[str] = field(default_factory=Fact)
    docked: Fact[bool] = field(default_factory=Fact)
    hold: Fact[dict[str, int]] = field(default_factory=Fact)
    fuel: Level = field(default_factory=Level)
    hull: Level = field(default_factory=Level)
    credits: Fact[int] = field(default_factory=Fact)
    used: int | None = None
    capacity: int | None = None
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

    @property
    def facts(self) -> dict[str, Fact[Any]]:
        """The facts that age, by name."""
        return {name: getattr(self, name) for name in LIMITS}

    @property
    def here(self) -> Place | None:
        """The place on the chart, where both are known."""
        chart = self.chart_here
        return chart.find(self.place.value) if chart else None

    @property
    def chart_here(self) -> Chart | None:
        """The chart, if it is that of the present system."""
        chart = self.chart
        return chart if chart and chart.covers(self.system.value) else None


# --- Reading the answers of queries. Each reader yields the names of the facts it learnt.


def _learn_status(b: Beliefs, data: Json) -> Iterator[str]:
    player, where = as_mapping(data.get("player")), as_mapping(data.get("location"))
    yield from _learn_place(b, player, where)
    if player or where:
        b.docked.learn(bool(player.get("docked_at_base") or where.get("docked_at")))
        yield "docked"
    money = as_whole(player.get("credits"))
    if money is not None:
        b.credits.learn(money)
        yield "credits"
    b.home_base = as_text(player.get("home_base")) or b.home_base
    b.account = as_text(player.get("username")) or b.account
    yield from _learn_ship(b, data)


def _learn_place(b: Beliefs, player: Json, where: Json) -> Iterator[str]:
    system = as_text(player.get("current_system")) or as_text(where.get("system_id"))
    place = as_text(player.get("current_poi")) or as_text(where.get("poi_id"))
    if system:
        b.system.learn(system)
        yield "system"
    if place:
        if place != b.place.value:
            b.barren = b.no_base = False
        b.place.learn(place)
        b.on_the_way = ""
        yield "place"


def _learn_ship(b: Beliefs, data: Json) -> Iterator[str]:
    ship = as_mapping(data.get("ship"))
    for name, level in (("fuel", b.fuel), ("hull", b.hull)):
        value = as_whole(ship.get(name))
        if value is not None:
            level.most = as_whole(ship.get(f"max_{name}")) or level.most
            level.learn(value)
            yield name
    if "cargo_used" in ship:
        capacity = ship.get("cargo_capacity")
        _learn_hold(b, ship.get("cargo"), ship["cargo_used"], capacity)
        yield "hold"


def _learn_cargo(b: Beliefs, data: Json) -> Iterator[str]:
    if "used" in data or "cargo" in data:
        _learn_hold(b, data.get("cargo"), data.get("used"), data.get("capacity"))
        yield "hold"


def _learn_hold(b: Beliefs, items: object, used: object, capacity: object) -> None:
    held = {
        str(item.get("item_id")): as_whole(item.get("quantity")) or 0
        for item in as_objects(items)
    }
    b.hold.learn(held)
    whole = as_whole(used)
    b.used = sum(held.values()) if whole is None else whole
    b.capacity = as_whole(capacity) or b.capacity
    b.full = bool(b.capacity and b.used >= b.capacity)


def _learn_system(b: Beliefs, data: Json) -> Iterator[str]:
    if data.get("in_transit"):
        b.on_the_way = as_text(data.get("to_system")) or "the destination"
        return
    if chart := _read_chart(data):
        b.chart = chart
        b.system.learn(chart.system)
        yield "system"


def _read_chart(data: Json) -> Chart | None:
    # The answer's form changed with v0.87.
    system = as_mapping(data.get("system"))
    name = as_text(system.get("id"))
    if not name:
        return None
    listed = as_objects(data.get("pois")) or as_objects(system.get("pois"))
    ways = system.get("connections") or data.get("connections")
    ids = (
        as_text(way.get("system_id")) or as_text(way.get("id"))
        for way in as_objects(ways)
    )
    return Chart(
        system=name,
        name=as_text(system.get("name")) or name,
        places=tuple(map(_read_place, listed)),
        ways=tuple(as_texts(ways) or filter(None, ids)),
    )


def _read_place(item: Json) -> Place:
    kind = str(item.get("type") or "")
    base = bool(item.get("has_base") or item.get("base_id"))
    # The old list does not say which place has a base; stations mostly do.
    if "has_base" not in item and "base_id" not in item:
        base = kind == "station"
    name = str(item.get("id") or "")
    return Place(name, str(item.get("name") or name), kind, base)


def _learn_poi(b: Beliefs, data: Json) -> Iterator[str]:
    if data.get("in_transit"):
        b.on_the_way = as_text(data.get("to_poi")) or "the destination"
        return
    poi = as_mapping(data.get("poi"))
    if place := as_text(poi.get("id")):
        b.place.learn(place)
        yield "place"
    if system := as_text(poi.get("system_id")):
        b.system.learn(system)
        yield "system"


def _learn_route(b: Beliefs, data: Json) -> Iterator[str]:
    steps = as_objects(data.get("route"))
    b.route = tuple(name for step in steps if (name := as_text(step.get("system_id"))))
    yield from ()


def _learn_search(b: Beliefs, data: Json) -> Iterator[str]:
    query = as_text(data.get("query"))
    found = [as_text(item.get("system_id")) for item in as_objects(data.get("systems"))]
    if query is not None:
        first = next((name for name in found if name), "")
        b.found_systems = {**b.found_systems, query.casefold(): first}
    yield from ()


def learn_recalled(b: Beliefs, arguments: Mapping[str, Any], data: Json) -> None:
    """Learn the chart from a snapshot that was recalled in full."""
    if arguments.get("handle") != "state://get_system":
        return
    inner = data.get("content") or data.get("text") or data
    content = find_object(inner) if isinstance(inner, str) else as_mapping(inner)
    if (chart := _read_chart(content)) and (
        b.chart is None or chart.covers(b.system.value)
    ):
        b.chart = chart


Reader = Callable[[Beliefs, Json], Iterator[str]]

READERS: Mapping[str, Reader] = {
    "get_status": _learn_status,
    "register": _learn_status,
    "login": _learn_status,
    "get_ship": _learn_ship,
    "get_cargo": _learn_cargo,
    "get_system": _learn_system,
    "get_poi": _learn_poi,
    "find_route": _learn_route,
    "search_systems": _learn_search,
}
