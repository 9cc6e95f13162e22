"""Beliefs from what the game says by itself: refusals and notifications."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agents.llm.pilot.answers import Json, mapping, objects, text, whole
from agents.llm.pilot.beliefs import Beliefs


def take(b: Beliefs, data: Json) -> None:
    """Learn from the answer of get_notifications.

    An event tells of an action that was asked for before it; where the pilot has
    an expectation already, that one is newer and stays.
    """
    tick = whole(data.get("current_tick"))
    if tick is not None:
        b.tick = tick
        if b.arrival is not None and tick >= b.arrival:
            b.arrival = None
            b.on_the_way = ""
    for item in objects(data.get("notifications")):
        event = mapping(item.get("data"))
        kind = item.get("msg_type")
        if kind == "action_error":
            command = text(event.get("command")) or ""
            refuse(b, text(event.get("code")) or "error", command, {})
        elif kind == "player_died":
            _lost(b)
        elif kind in ("ok", "action_result"):
            _done(b, mapping(event.get("result")) or event)


def _done(b: Beliefs, event: Json) -> None:
    action = event.get("action")
    if action in ("arrived", "jumped"):
        b.arrival = None
        b.on_the_way = ""
        _arrived(b, event)
    elif action in ("dock", "undock") and not b.docked.known:
        b.docked.learn(action == "dock")
    elif action == "sell" and event.get("quantity_sold") == 0:
        b.unsellable.add(text(event.get("item_id")) or "")
        b.hold.doubt()


def _arrived(b: Beliefs, event: Json) -> None:
    place, system = text(event.get("poi_id")), text(event.get("system_id"))
    if system and (not b.system.known or b.system.value == system):
        b.system.learn(system)
        b.came_from = text(event.get("from_system")) or b.came_from
    if place and not b.place.known:
        b.place.learn(place)


def _lost(b: Beliefs) -> None:
    """The ship is gone: nothing that was known of it is true any more."""
    for fact in b.facts().values():
        fact.doubt()
    b.full = b.barren = b.no_base = False
    b.chart = None


def refuse(b: Beliefs, code: str, tool: str, arguments: Mapping[str, Any]) -> None:
    """Learn from a refusal of ``tool``."""
    if lesson := LESSONS.get(code):
        lesson(b)
    elif code == "already_there":
        b.place.learn(text(arguments.get("target_poi")) or b.place.value or "")
    elif tool in ("travel", "jump"):
        b.place.doubt()


def _full(b: Beliefs) -> None:
    b.full = True


def _barren(b: Beliefs) -> None:
    b.barren, b.digging = True, False


def _no_base(b: Beliefs) -> None:
    b.no_base = True


def _fuel_full(b: Beliefs) -> None:
    if b.tank:
        b.fuel.learn(b.tank)


def _hull_full(b: Beliefs) -> None:
    if b.frame:
        b.hull.learn(b.frame)


def _astray(b: Beliefs) -> None:
    """The ship is not where it was thought to be."""
    b.chart, b.route, b.charted = None, (), False
    b.system.doubt()
    b.place.doubt()


def _miscounted(b: Beliefs) -> None:
    b.hold.doubt()


def _penniless(b: Beliefs) -> None:
    b.credits.learn(0)


LESSONS: Mapping[str, Callable[[Beliefs], None]] = {
    "not_docked": lambda b: b.docked.learn(False),
    "docked": lambda b: b.docked.learn(True),
    "already_docked": lambda b: b.docked.learn(True),
    "cargo_full": _full,
    "no_resources": _barren,
    "not_asteroid": _barren,
    "no_base": _no_base,
    "fuel_full": _fuel_full,
    "hull_full": _hull_full,
    "no_fuel": lambda b: b.fuel.learn(0),
    "invalid_poi": _astray,
    "wrong_system": _astray,
    "not_connected": _astray,
    "already_in_system": _astray,
    "insufficient_items": _miscounted,
    "invalid_item": _miscounted,
    "no_cargo_space": _full,
    "insufficient_credits": _penniless,
    "no_credits": _penniless,
}
"""What the code of a refusal says about the world."""
