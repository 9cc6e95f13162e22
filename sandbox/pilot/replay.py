"""Beliefs from the calls and answers in view, in their order, then from the state block."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from sandbox.pilot import orders
from sandbox.pilot.beliefs import LIMITS, READERS, Beliefs, Fact, T, learn_recalled
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
        elif reader := READERS.get(call.name):
            for fact in reader(beliefs, data):
                self._set_fresh(fact)
        elif call.name == "zoea_recall":
            learn_recalled(beliefs, call.arguments, data)

    def _set_fresh(self, fact: str) -> None:
        self.ages[fact] = 0
        self.seen[fact] = self.beliefs.tick

    def _learn_action(self, call: Called) -> None:
        self.beliefs.logged_in = True
        self.beliefs.on_the_way = ""
        for fact in self.ages:
            self.ages[fact] += 1
        effect, doubted = _EFFECTS[call.name]
        if effect is None or (call.answer.unsure and doubted):
            for fact in doubted:
                self.beliefs.facts[fact].doubt()
            return
        for fact in effect(self.beliefs, call):
            self._set_fresh(fact)

    def _learn_refusal(self, call: Called, *, now: bool) -> None:
        code = call.answer.code
        if code in LOGGED_OUT_CODES:
            self.beliefs.logged_in = False
            return
        if call.name.startswith(OWN):
            return
        facts = self.beliefs.facts.values()
        before = [(fact.value, fact.known) for fact in facts]
        orders.learn_refusal(self.beliefs, code, call.name, call.arguments)
        for fact, was in zip(facts, before, strict=True):
            fact.firm = now and (fact.firm or (fact.value, fact.known) != was)

    def _doubt_the_old(self) -> None:
        for name, fact in self.beliefs.facts.items():
            then, now = self.seen.get(name), self.beliefs.tick
            ticks = now - then if then is not None and now is not None else 0
            if max(ticks, self.ages.get(name, 0)) > LIMITS[name]:
                fact.doubt()


# --- What an accepted action leads to: each effect returns the facts that it set.

Effect = Callable[[Beliefs, Called], tuple[str, ...]]


def _travel(b: Beliefs, call: Called) -> tuple[str, ...]:
    _depart(b, call, usual_fuel=1)
    b.place.learn(as_text(call.arguments.get("target_poi")) or "")
    return ("place",)


def _jump(b: Beliefs, call: Called) -> tuple[str, ...]:
    b.came_from = b.system.value or b.came_from
    _depart(b, call, usual_fuel=2)
    place = as_text(call.answer.data.get("poi_id"))
    b.place = Fact(place, place is not None, "get_notifications")
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


def _refuel(b: Beliefs, call: Called) -> tuple[str, ...]:
    b.credits.doubt()
    level = as_whole(call.answer.data.get("fuel_now")) or b.fuel.most
    if level is None:
        b.fuel.doubt()
        return ()
    b.fuel.learn(level)
    return ("fuel",)


def _repair(b: Beliefs, call: Called) -> tuple[str, ...]:
    b.credits.doubt()
    b.hull.doubt()
    b.hull.fill()
    return ("hull",) if b.hull.known else ()


# What an action leads to, and what is in doubt instead where that is not known.
_EFFECTS: Mapping[str, tuple[Effect | None, tuple[str, ...]]] = {
    "travel": (_travel, ("place",)),
    "jump": (_jump, ("place", "system")),
    "dock": (_dock, ("docked",)),
    "undock": (_dock, ("docked",)),
    "mine": (_mine, ()),
    "sell": (_sell, ()),
    "buy": (None, ("hold", "credits")),
    "refuel": (_refuel, ("credits", "fuel")),
    "repair": (_repair, ("credits", "hull")),
    "attack": (None, tuple(LIMITS)),
}
# What takes a tick.
ACTIONS = frozenset(_EFFECTS)


# --- The state block laid over what the messages say.


def learn_block(beliefs: Beliefs, block: Block, *, placeless: bool = False) -> None:
    """Learn what the block shows without doubt; take the rest as a guess.

    ``placeless``: the game's status names the system and no place in it (API v2).
    """
    if block.logged_in is None:
        return
    beliefs.logged_in = block.logged_in
    beliefs.account = block.account or beliefs.account
    if not block.logged_in:
        return
    _location(beliefs, block, placeless=placeless)
    if shown := block.find("Docked", "get_status"):
        _merge(beliefs.docked, "docked", shown.value.startswith("Yes"), shown)
    if shown := block.find("Credits", "get_status"):
        _merge(beliefs.credits, "credits", _parse_number(shown.value), shown)
    for name, level in (("fuel", beliefs.fuel), ("hull", beliefs.hull)):
        if shown := block.find(name.capitalize(), *_SHIP):
            value, most = _split_level(shown)
            level.most = most or level.most
            _merge(level, name, value, shown)
    _hold(beliefs, block)
    system = block.find("", "get_system")
    beliefs.charted = system is not None and not system.changed
    transit = block.find("In transit", *_SHIP)
    if transit and not _is_doubtful(transit, "place"):
        beliefs.on_the_way = transit.value.removeprefix("Yes to ")


def _is_doubtful(shown: Shown, fact: str) -> bool:
    old = shown.age is None or shown.age > LIMITS[fact]
    return bool(shown.changed) or shown.stale or old


def _merge(fact: Fact[T], name: str, value: T | None, shown: Shown) -> None:
    """Learn what is not in doubt; take what is only where the messages know no better.

    What a refusal of this turn says is newer than any snapshot.
    """
    if value is None or fact.firm:
        return
    if not _is_doubtful(shown, name):
        fact.learn(value)
    elif not fact.known:
        fact.value = value
        fact.ask = fact.ask or shown.ask


def _location(b: Beliefs, block: Block, *, placeless: bool) -> None:
    before = b.place.value
    if placeless and (here := block.find("", "get_poi")):
        name = here.value.rpartition(" (")[0] or here.value
        _merge(b.place, "place", _find_known_id(b, name, before), here)
    shown = block.find("Location", "get_status")
    if shown is None:
        return
    system, arrow, place = shown.value.partition(" > ")
    if not arrow and not placeless:
        system, place = "", system
    if place:
        _merge(b.place, "place", _find_known_id(b, place, before), shown)
    charted = b.chart and b.chart.covers(b.system.value) and b.chart.covers(system)
    if system and not charted:
        _merge(b.system, "system", system, shown)
    elif system and not _is_doubtful(shown, "system"):
        b.system.known = True
    if b.place.known and b.place.value != before:
        b.barren = b.no_base = False


def _find_known_id(b: Beliefs, place: str, before: str | None) -> str:
    found = b.chart.find(place) if b.chart else None
    if found is not None and found.is_called(before):
        return before or place
    return found.id if found else place


def _hold(b: Beliefs, block: Block) -> None:
    shown = block.find("Cargo", "get_cargo", *_SHIP)
    if shown is None:
        return
    count, most = _split_level(shown)
    b.capacity = most or b.capacity
    if count is None:
        return
    sure = not _is_doubtful(shown, "hold")
    # Mining only adds: what was full before it is full now.
    at_least = sure or set(shown.changed.split(", ")) == {"mine"}
    if sure or not b.hold.known:
        b.used = count if at_least else None
        full = b.capacity and b.used is not None and b.used >= b.capacity
        b.full = b.full or bool(full)
    items = filter(None, map(_CHILD.match, shown.children))
    held = {item[1]: int(item[2].replace(",", "")) for item in items}
    if shown.complete and (held or count == 0):
        _merge(b.hold, "hold", held, shown)
    elif sure or not b.hold.known:
        b.hold.doubt()


def _split_level(shown: Shown) -> tuple[int | None, int | None]:
    # Such as "Fuel: 80/100".
    level, _, most = shown.value.partition("/")
    return _parse_number(level), _parse_number(most)


def _parse_number(text: str) -> int | None:
    digits = text.strip().replace(",", "")
    try:
        return int(float(digits))
    except (ValueError, OverflowError):
        return None
