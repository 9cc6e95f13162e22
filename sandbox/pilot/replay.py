"""Beliefs from the calls and answers in view, in their order."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from sandbox.pilot import beliefs as pilot_beliefs
from sandbox.pilot import orders
from sandbox.pilot.beliefs import LIMITS, Beliefs, Fact, T
from sandbox.pilot.reading import (
    LOGGED_OUT,
    Answer,
    Block,
    Called,
    Shown,
    Transcript,
    text,
    whole,
)

ACTIONS = frozenset(
    {
        "travel",
        "jump",
        "dock",
        "undock",
        "mine",
        "sell",
        "buy",
        "refuel",
        "repair",
        "attack",
    }
)
"""What takes a tick."""

OWN = ("zoea_", "captains_log_", "register", "login", "logout")


class Replay:
    """Goes through the calls once; ``ages`` counts accepted actions per fact."""

    def __init__(self) -> None:
        self.beliefs = Beliefs()
        self.ages: dict[str, int] = {}
        self.seen: dict[str, int | None] = {}

    def run(self, transcript: Transcript) -> Beliefs:
        """The beliefs after everything in view."""
        for index, entry in enumerate(transcript.entries):
            if index == transcript.turn_start:
                # Who was under way in an earlier turn may have arrived since.
                self.beliefs.on_the_way = ""
            if isinstance(entry, Called):
                self._take(entry, now=index >= transcript.turn_start)
        self._forget_the_old()
        return self.beliefs

    def _take(self, call: Called, *, now: bool) -> None:
        answer = call.answer
        if answer.is_error:
            self._refused(call, now)
        elif call.name in ACTIONS:
            self._act(call)
        else:
            self._told(call)

    # -- queries -----------------------------------------------------------

    def _told(self, call: Called) -> None:
        beliefs, data = self.beliefs, call.answer.data
        if call.name in ("register", "login"):
            beliefs.logged_in = True
            beliefs.account = text(call.arguments.get("username")) or beliefs.account
        elif call.name == "logout":
            beliefs.logged_in = False
        elif not call.name.startswith(OWN):
            beliefs.logged_in = True
        if call.name == "get_notifications":
            orders.take(beliefs, data)
        elif reader := pilot_beliefs.READERS.get(call.name):
            for fact in reader(beliefs, data):
                self._fresh(fact)
        elif call.name == "zoea_recall":
            pilot_beliefs.recalled(beliefs, call.arguments, data)

    def _fresh(self, fact: str) -> None:
        self.ages[fact] = 0
        self.seen[fact] = self.beliefs.tick

    # -- actions -----------------------------------------------------------

    def _act(self, call: Called) -> None:
        self.beliefs.logged_in = True
        self.beliefs.on_the_way = ""
        for fact in self.ages:
            self.ages[fact] += 1
        effect = _EFFECTS[call.name]
        for fact in effect(self.beliefs, call.arguments, call.answer):
            self._fresh(fact)

    def _refused(self, call: Called, now: bool) -> None:
        code = call.answer.code
        if code in LOGGED_OUT:
            self.beliefs.logged_in = False
            return
        if call.name.startswith(OWN):
            return
        facts = self.beliefs.facts().values()
        before = [(fact.value, fact.known) for fact in facts]
        orders.refuse(self.beliefs, code, call.name, call.arguments)
        for fact, was in zip(facts, before, strict=True):
            fact.firm = now and (fact.firm or (fact.value, fact.known) != was)

    def _forget_the_old(self) -> None:
        """Doubt what is older than its limit, by ticks or by own actions."""
        for name, fact in self.beliefs.facts().items():
            then, now = self.seen.get(name), self.beliefs.tick
            ticks = now - then if then is not None and now is not None else 0
            if max(ticks, self.ages.get(name, 0)) > LIMITS[name]:
                fact.doubt()


# -- what an accepted action leads to --------------------------------------

Effect = Callable[[Beliefs, Mapping[str, Any], Answer], tuple[str, ...]]


def _travel(
    b: Beliefs, arguments: Mapping[str, Any], answer: Answer
) -> tuple[str, ...]:
    if answer.unsure:
        b.place.doubt()
        return ()
    target = text(arguments.get("target_poi")) or ""
    if b.fuel.value is not None:
        b.fuel.value -= whole(answer.data.get("fuel_cost")) or 1
    _arriving(b, answer)
    _moved(b, target)
    return ("place",)


def _jump(b: Beliefs, arguments: Mapping[str, Any], answer: Answer) -> tuple[str, ...]:
    if answer.unsure:
        b.place.doubt()
        b.system.doubt()
        return ()
    if b.system.value:
        b.came_from = b.system.value
    if b.fuel.value is not None:
        b.fuel.value -= whole(answer.data.get("fuel_cost")) or 2
    _arriving(b, answer)
    _moved(b, "")
    b.place.value = text(answer.data.get("poi_id"))
    b.place.known = b.place.value is not None
    b.place.ask = "get_notifications"
    b.system.learn(text(arguments.get("target_system")) or "")
    return ("place", "system")


def _arriving(b: Beliefs, answer: Answer) -> None:
    b.arrival = whole(answer.data.get("arrival_tick"))
    b.docked.learn(False)


def _moved(b: Beliefs, place: str) -> None:
    b.barren = b.no_base = b.digging = False
    b.on_the_way = ""
    b.place.learn(place)


def _dock(b: Beliefs, arguments: Mapping[str, Any], answer: Answer) -> tuple[str, ...]:
    return _set_dock(b, True, answer)


def _undock(
    b: Beliefs, arguments: Mapping[str, Any], answer: Answer
) -> tuple[str, ...]:
    return _set_dock(b, False, answer)


def _set_dock(b: Beliefs, docked: bool, answer: Answer) -> tuple[str, ...]:
    if answer.unsure:
        b.docked.doubt()
        return ()
    b.docked.learn(docked)
    return ("docked",)


def _mine(b: Beliefs, arguments: Mapping[str, Any], answer: Answer) -> tuple[str, ...]:
    b.hold.doubt()
    b.barren = b.full = False
    b.digging = True
    b.docked.learn(False)
    return ("docked",)


def _sell(b: Beliefs, arguments: Mapping[str, Any], answer: Answer) -> tuple[str, ...]:
    b.full = False
    b.credits.doubt()
    sold = whole(answer.data.get("quantity_sold"))
    item = text(arguments.get("item_id")) or ""
    if answer.unsure:
        b.hold.doubt()
    elif sold == 0:
        b.unsellable.add(item)
    elif b.hold.value is not None:
        _take_out(b, item, sold or whole(arguments.get("quantity")) or 0)
    return ()


def _take_out(b: Beliefs, item: str, count: int) -> None:
    hold = b.hold.value or {}
    left = hold.get(item, 0) - count
    b.hold.value = {k: v for k, v in hold.items() if k != item}
    if left > 0:
        b.hold.value[item] = left
    if b.used is not None:
        b.used = max(0, b.used - count)


def _buy(b: Beliefs, arguments: Mapping[str, Any], answer: Answer) -> tuple[str, ...]:
    b.hold.doubt()
    b.credits.doubt()
    return ()


def _refuel(
    b: Beliefs, arguments: Mapping[str, Any], answer: Answer
) -> tuple[str, ...]:
    b.credits.doubt()
    level = whole(answer.data.get("fuel_now")) or b.tank
    if level is None or answer.unsure:
        b.fuel.doubt()
        return ()
    b.fuel.learn(level)
    return ("fuel",)


def _repair(
    b: Beliefs, arguments: Mapping[str, Any], answer: Answer
) -> tuple[str, ...]:
    b.credits.doubt()
    if b.frame is None or answer.unsure:
        b.hull.doubt()
        return ()
    b.hull.learn(b.frame)
    return ("hull",)


def _attack(
    b: Beliefs, arguments: Mapping[str, Any], answer: Answer
) -> tuple[str, ...]:
    for fact in b.facts().values():
        fact.doubt()
    return ()


_EFFECTS: Mapping[str, Effect] = {
    "travel": _travel,
    "jump": _jump,
    "dock": _dock,
    "undock": _undock,
    "mine": _mine,
    "sell": _sell,
    "buy": _buy,
    "refuel": _refuel,
    "repair": _repair,
    "attack": _attack,
}

# SECTION The state block laid over what the messages say.

_CHILD = re.compile(r"(.+) x([\d,]+)$")
_SHIP = ("get_status", "get_ship")


def lay_over(beliefs: Beliefs, block: Block) -> None:
    """Take from the block what it shows without doubt, and the rest as a guess."""
    if block.logged_in is None:
        return
    beliefs.logged_in = block.logged_in
    beliefs.account = block.account or beliefs.account
    if not block.logged_in:
        return
    _location(beliefs, block)
    _overlay_dock(beliefs, block)
    _levels(beliefs, block)
    _hold(beliefs, block)
    name = block.find("", "get_system")
    beliefs.charted = name is not None and not name.changed
    if (transit := block.find("In transit", *_SHIP)) and not _doubt(transit, "place"):
        beliefs.on_the_way = transit.value.removeprefix("Yes to ")


def _doubt(shown: Shown, fact: str) -> bool:
    """Whether the rule of asking again says no to this line."""
    old = shown.age is None or shown.age > LIMITS[fact]
    return bool(shown.changed) or shown.stale or old


def _merge(fact: Fact[T], name: str, value: T | None, shown: Shown) -> None:
    """Undoubted: true. Doubted: only where the messages know no better.

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
    """The id that the messages use for a place, where it is the same place."""
    found = b.chart.find(place) if b.chart else None
    if found is not None and found.is_called(before):
        return before or place
    return found.id if found else place


def _overlay_dock(b: Beliefs, block: Block) -> None:
    if shown := block.find("Docked", "get_status"):
        _merge(b.docked, "docked", shown.value.startswith("Yes"), shown)


def _levels(b: Beliefs, block: Block) -> None:
    if shown := block.find("Credits", "get_status"):
        _merge(b.credits, "credits", number(shown.value), shown)
    if shown := block.find("Fuel", *_SHIP):
        level, _, most = shown.value.partition("/")
        b.tank = number(most) or b.tank
        _merge(b.fuel, "fuel", number(level), shown)
    if shown := block.find("Hull", *_SHIP):
        level, _, most = shown.value.partition("/")
        b.frame = number(most) or b.frame
        _merge(b.hull, "hull", number(level), shown)


def _hold(b: Beliefs, block: Block) -> None:
    shown = block.find("Cargo", "get_cargo", *_SHIP)
    if shown is None:
        return
    used, _, most = shown.value.partition("/")
    b.capacity = number(most) or b.capacity
    count = number(used)
    if count is None:
        return
    sure = not _doubt(shown, "hold")
    # Mining only adds: what was full before it is full now.
    at_least = sure or set(shown.changed.split(", ")) == {"mine"}
    if sure or not b.hold.known:
        b.used = count if at_least else None
        b.full = b.full or _brimful(b)
    held = items_of(shown)
    if shown.complete and (held or count == 0):
        _merge(b.hold, "hold", held, shown)
    elif sure or not b.hold.known:
        b.hold.doubt()


def _brimful(b: Beliefs) -> bool:
    return bool(b.capacity and b.used is not None and b.used >= b.capacity)


def items_of(shown: Shown) -> dict[str, int]:
    """The items below a Cargo line, by name."""
    found = (_CHILD.match(child) for child in shown.children)
    return {m[1]: int(m[2].replace(",", "")) for m in found if m}


def number(text: str) -> int | None:
    """A number with thousands separators, None for anything else."""
    digits = text.strip().replace(",", "")
    try:
        return int(float(digits))
    except (ValueError, OverflowError):
        return None
