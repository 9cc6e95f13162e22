"""Beliefs from the calls and answers in view, in their order, then from the state block."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from sandbox.pilot import beliefs as pilot_beliefs
from sandbox.pilot import orders
from sandbox.pilot.beliefs import LIMITS, Beliefs, Fact, T
from sandbox.pilot.reading import (
    LOGGED_OUT_CODES,
    Block,
    Called,
    Shown,
    Transcript,
    as_text,
    as_whole,
)

# Tools that tell nothing about a session with the game.
OWN = ("zoea_", "captains_log_", "register", "login", "logout")
_CHILD = re.compile(r"(.+) x([\d,]+)$")
_SHIP = ("get_status", "get_ship")


class Replay:
    """Replays the calls once; ``ages`` counts the actions since each fact was learnt."""

    def __init__(self) -> None:
        self.beliefs = Beliefs()
        self.ages: dict[str, int] = {}
        self.seen: dict[str, int | None] = {}

    def run(self, transcript: Transcript) -> Beliefs:
        """Derive the beliefs after everything in view."""
        for index, entry in enumerate(transcript.entries):
            if index == transcript.turn_start:
                # A ship under way in an earlier turn may have arrived since.
                self.beliefs.on_the_way = ""
            if not isinstance(entry, Called):
                continue
            if entry.answer.is_error:
                self._learn_refusal(entry, now=index >= transcript.turn_start)
            elif entry.name in ACTIONS:
                self._learn_action(entry)
            else:
                self._learn_query(entry)
        self._doubt_the_old()
        return self.beliefs

    def _learn_query(self, call: Called) -> None:
        beliefs, data = self.beliefs, call.answer.data
        if call.name in ("register", "login"):
            beliefs.logged_in = True
            beliefs.account = as_text(call.arguments.get("username")) or beliefs.account
        elif call.name == "logout":
            beliefs.logged_in = False
        elif not call.name.startswith(OWN):
            beliefs.logged_in = True
        if call.name == "get_notifications":
            orders.learn_notifications(beliefs, data)
        elif reader := pilot_beliefs.READERS.get(call.name):
            for fact in reader(beliefs, data):
                self._set_fresh(fact)
        elif call.name == "zoea_recall":
            pilot_beliefs.learn_recalled(beliefs, call.arguments, data)

    def _set_fresh(self, fact: str) -> None:
        self.ages[fact] = 0
        self.seen[fact] = self.beliefs.tick

    def _learn_action(self, call: Called) -> None:
        self.beliefs.logged_in = True
        self.beliefs.on_the_way = ""
        for fact in self.ages:
            self.ages[fact] += 1
        for fact in _EFFECTS[call.name](self.beliefs, call):
            self._set_fresh(fact)

    def _learn_refusal(self, call: Called, *, now: bool) -> None:
        code = call.answer.code
        if code in LOGGED_OUT_CODES:
            self.beliefs.logged_in = False
            return
        if call.name.startswith(OWN):
            return
        facts = self.beliefs.facts().values()
        before = [(fact.value, fact.known) for fact in facts]
        orders.learn_refusal(self.beliefs, code, call.name, call.arguments)
        for fact, was in zip(facts, before, strict=True):
            fact.firm = now and (fact.firm or (fact.value, fact.known) != was)

    def _doubt_the_old(self) -> None:
        """Doubt what is older than its limit, by ticks or by own actions."""
        for name, fact in self.beliefs.facts().items():
            then, now = self.seen.get(name), self.beliefs.tick
            ticks = now - then if then is not None and now is not None else 0
            if max(ticks, self.ages.get(name, 0)) > LIMITS[name]:
                fact.doubt()


# --- What an accepted action leads to: each effect returns the facts that it set.

Effect = Callable[[Beliefs, Called], tuple[str, ...]]


def _travel(b: Beliefs, call: Called) -> tuple[str, ...]:
    if call.answer.unsure:
        b.place.doubt()
        return ()
    _depart(b, call, usual_fuel=1)
    b.place.learn(as_text(call.arguments.get("target_poi")) or "")
    return ("place",)


def _jump(b: Beliefs, call: Called) -> tuple[str, ...]:
    if call.answer.unsure:
        b.place.doubt()
        b.system.doubt()
        return ()
    b.came_from = b.system.value or b.came_from
    _depart(b, call, usual_fuel=2)
    place = as_text(call.answer.data.get("poi_id"))
    b.place.learn("")
    b.place.value, b.place.known = place, place is not None
    b.place.ask = "get_notifications"
    b.system.learn(as_text(call.arguments.get("target_system")) or "")
    return ("place", "system")


def _depart(b: Beliefs, call: Called, usual_fuel: int) -> None:
    data = call.answer.data
    if b.fuel.value is not None:
        b.fuel.value -= as_whole(data.get("fuel_cost")) or usual_fuel
    b.arrival = as_whole(data.get("arrival_tick"))
    b.docked.learn(False)
    b.barren = b.no_base = b.digging = False
    b.on_the_way = ""


def _dock(b: Beliefs, call: Called) -> tuple[str, ...]:
    if call.answer.unsure:
        b.docked.doubt()
        return ()
    b.docked.learn(call.name == "dock")
    return ("docked",)


def _mine(b: Beliefs, call: Called) -> tuple[str, ...]:
    b.hold.doubt()
    b.barren = b.full = False
    b.digging = True
    b.docked.learn(False)
    return ("docked",)


def _sell(b: Beliefs, call: Called) -> tuple[str, ...]:
    b.full = False
    b.credits.doubt()
    sold = as_whole(call.answer.data.get("quantity_sold"))
    item = as_text(call.arguments.get("item_id")) or ""
    if call.answer.unsure:
        b.hold.doubt()
    elif sold == 0:
        b.unsellable.add(item)
    elif b.hold.value is not None:
        _take_out(b, item, sold or as_whole(call.arguments.get("quantity")) or 0)
    return ()


def _take_out(b: Beliefs, item: str, count: int) -> None:
    hold = dict(b.hold.value or {})
    left = hold.pop(item, 0) - count
    b.hold.value = hold | ({item: left} if left > 0 else {})
    if b.used is not None:
        b.used = max(0, b.used - count)


def _buy(b: Beliefs, call: Called) -> tuple[str, ...]:
    b.hold.doubt()
    b.credits.doubt()
    return ()


def _refuel(b: Beliefs, call: Called) -> tuple[str, ...]:
    b.credits.doubt()
    level = as_whole(call.answer.data.get("fuel_now")) or b.tank
    if level is None or call.answer.unsure:
        b.fuel.doubt()
        return ()
    b.fuel.learn(level)
    return ("fuel",)


def _repair(b: Beliefs, call: Called) -> tuple[str, ...]:
    b.credits.doubt()
    if b.frame is None or call.answer.unsure:
        b.hull.doubt()
        return ()
    b.hull.learn(b.frame)
    return ("hull",)


def _attack(b: Beliefs, call: Called) -> tuple[str, ...]:
    for fact in b.facts().values():
        fact.doubt()
    return ()


_EFFECTS: Mapping[str, Effect] = {
    "travel": _travel,
    "jump": _jump,
    "dock": _dock,
    "undock": _dock,
    "mine": _mine,
    "sell": _sell,
    "buy": _buy,
    "refuel": _refuel,
    "repair": _repair,
    "attack": _attack,
}
# What takes a tick.
ACTIONS = frozenset(_EFFECTS)


# --- The state block laid over what the messages say.


def learn_block(beliefs: Beliefs, block: Block) -> None:
    """Learn what the block shows without doubt; take the rest as a guess."""
    if block.logged_in is None:
        return
    beliefs.logged_in = block.logged_in
    beliefs.account = block.account or beliefs.account
    if not block.logged_in:
        return
    _location(beliefs, block)
    if shown := block.find("Docked", "get_status"):
        _merge(beliefs.docked, "docked", shown.value.startswith("Yes"), shown)
    _levels(beliefs, block)
    _hold(beliefs, block)
    name = block.find("", "get_system")
    beliefs.charted = name is not None and not name.changed
    if (transit := block.find("In transit", *_SHIP)) and not _doubt(transit, "place"):
        beliefs.on_the_way = transit.value.removeprefix("Yes to ")


def _doubt(shown: Shown, fact: str) -> bool:
    """Whether this line does not make a fact known; see Fact."""
    old = shown.age is None or shown.age > LIMITS[fact]
    return bool(shown.changed) or shown.stale or old


def _merge(fact: Fact[T], name: str, value: T | None, shown: Shown) -> None:
    """Learn what is not in doubt; take what is only where the messages know no better.

    What a refusal of this turn says is newer than any snapshot.
    """
    if value is None or fact.firm:
        return
    if not _doubt(shown, name):
        fact.learn(value)
    elif not fact.known:
        fact.value = value
        fact.ask = fact.ask or shown.ask


def _location(b: Beliefs, block: Block) -> None:
    shown = block.find("Location", "get_status")
    if shown is None:
        return
    system, arrow, place = shown.value.partition(" > ")
    if not arrow:
        system, place = "", system
    before = b.place.value
    _merge(b.place, "place", _same(b, place, before), shown)
    if system and not (
        b.chart and b.chart.covers(b.system.value) and b.chart.covers(system)
    ):
        _merge(b.system, "system", system, shown)
    elif system and not _doubt(shown, "system"):
        b.system.known = True
    if b.place.known and b.place.value != before:
        b.barren = b.no_base = False


def _same(b: Beliefs, place: str, before: str | None) -> str:
    """The id that the messages use for this place."""
    found = b.chart.find(place) if b.chart else None
    if found is not None and found.is_called(before):
        return before or place
    return found.id if found else place


def _levels(b: Beliefs, block: Block) -> None:
    if shown := block.find("Credits", "get_status"):
        _merge(b.credits, "credits", _parse_number(shown.value), shown)
    if shown := block.find("Fuel", *_SHIP):
        level, most = _split_level(shown)
        b.tank = most or b.tank
        _merge(b.fuel, "fuel", level, shown)
    if shown := block.find("Hull", *_SHIP):
        level, most = _split_level(shown)
        b.frame = most or b.frame
        _merge(b.hull, "hull", level, shown)


def _hold(b: Beliefs, block: Block) -> None:
    shown = block.find("Cargo", "get_cargo", *_SHIP)
    if shown is None:
        return
    count, most = _split_level(shown)
    b.capacity = most or b.capacity
    if count is None:
        return
    sure = not _doubt(shown, "hold")
    # Mining only adds: what was full before it is full now.
    at_least = sure or set(shown.changed.split(", ")) == {"mine"}
    if sure or not b.hold.known:
        b.used = count if at_least else None
        full = b.capacity and b.used is not None and b.used >= b.capacity
        b.full = b.full or bool(full)
    held = _read_items(shown)
    if shown.complete and (held or count == 0):
        _merge(b.hold, "hold", held, shown)
    elif sure or not b.hold.known:
        b.hold.doubt()


def _split_level(shown: Shown) -> tuple[int | None, int | None]:
    """The numbers of a line such as "Fuel: 80/100"."""
    level, _, most = shown.value.partition("/")
    return _parse_number(level), _parse_number(most)


def _read_items(shown: Shown) -> dict[str, int]:
    """The items below a Cargo line, by name."""
    found = (_CHILD.match(child) for child in shown.children)
    return {m[1]: int(m[2].replace(",", "")) for m in found if m}


def _parse_number(text: str) -> int | None:
    """A number with thousands separators, None for anything else."""
    digits = text.strip().replace(",", "")
    try:
        return int(float(digits))
    except (ValueError, OverflowError):
        return None
