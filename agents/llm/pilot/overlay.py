"""The state block laid over what the messages say."""

from __future__ import annotations

import re

from agents.llm.pilot.beliefs import LIMITS, Beliefs, Fact, T
from agents.llm.pilot.block import Block, Shown

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
    _dock(beliefs, block)
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


def _dock(b: Beliefs, block: Block) -> None:
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
