"""What others say: notifications and refusals of the game, and orders of people."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from memory.context.summaries import find_quoted_order, is_summary_block
from memory.context.types import find_marked_peer, is_nudge
from sandbox.pilot.beliefs import Beliefs
from sandbox.pilot.reading import (
    Called,
    Entry,
    Heard,
    Json,
    Transcript,
    as_mapping,
    as_objects,
    as_text,
    as_whole,
)
from sandbox.pilot.words import HOLDS, MAX_ORDER, TELLS, Part, parse_order

_BROADCAST = re.compile(r"Latest word from your commander:\s*(.+)")


@dataclass(frozen=True, slots=True)
class Order:
    """The newest order that is understood, at least in part.

    ``entries`` are what was called and said since. ``answered``: a summary quotes it,
    and tells that a turn has ended since. ``unread``: a newer word is not understood.
    """

    text: str
    parts: tuple[Part, ...]
    entries: tuple[Entry, ...] = ()
    answered: bool = False
    unread: bool = False

    @property
    def holds(self) -> bool:
        """Whether it asks to wait for the next one: last of all, or instead of working."""
        kinds = [part.kind for part in self.parts if part.kind not in ("", *TELLS)]
        if not kinds or kinds[-1] in ("fill", "work"):
            return False
        return kinds[-1] in HOLDS or "stop" in kinds

    def calls(self) -> list[Called]:
        """The calls since it was given."""
        return [entry for entry in self.entries if isinstance(entry, Called)]


def find_current_order(transcript: Transcript, name: str = "") -> Order | None:
    """The newest order in view, else the broadcast in the system prompt."""
    entries, unread = transcript.entries, False
    for index, entry in reversed(list(enumerate(entries))):
        if not isinstance(entry, Heard) or is_nudge(entry.text):
            continue
        if find_marked_peer(entry.text):
            continue
        text, answered = entry.text, False
        if is_summary_block(text):
            text, answered = find_quoted_order(text)
        parts = parse_order(text, name)
        if any(part.kind for part in parts):
            return Order(text, parts, tuple(entries[index + 1 :]), answered, unread)
        unread = unread or not is_summary_block(entry.text)
    said = _BROADCAST.search(transcript.system)
    parts = parse_order(said[1], name) if said else ()
    if said and any(part.kind for part in parts):
        return Order(said[1], parts, tuple(entries))
    return None


def is_human(text: str) -> bool:
    """Whether a text of the user role is no nudge, no summary and of no other Mysis."""
    return not (is_nudge(text) or is_summary_block(text) or find_marked_peer(text))


def find_unanswered(transcript: Transcript) -> str:
    """The text that was heard last, if it is not answered yet; not of a nudge."""
    last = transcript.entries[-1] if transcript.entries else None
    if isinstance(last, Heard) and is_human(last.text) and len(last.text) <= MAX_ORDER:
        return last.text
    return ""


def learn_notifications(b: Beliefs, data: Json) -> None:
    """Learn from the answer of get_notifications.

    An event is older than an expectation that the pilot has already, which stays.
    """
    tick = as_whole(data.get("current_tick"))
    if tick is not None:
        b.tick = tick
        if b.arrival is not None and tick >= b.arrival:
            b.arrival = None
            b.on_the_way = ""
    for item in as_objects(data.get("notifications")):
        event = as_mapping(item.get("data"))
        kind = item.get("msg_type")
        if kind == "action_error":
            command = as_text(event.get("command")) or ""
            learn_refusal(b, as_text(event.get("code")) or "error", command, {})
        elif kind == "player_died":
            _forget_ship(b)
        elif kind in ("ok", "action_result"):
            _learn_outcome(b, as_mapping(event.get("result")) or event)


def _learn_outcome(b: Beliefs, event: Json) -> None:
    action = event.get("action")
    if action in ("arrived", "jumped"):
        b.arrival = None
        b.on_the_way = ""
        _learn_arrival(b, event)
    elif action in ("dock", "undock") and not b.docked.known:
        b.docked.learn(action == "dock")
    elif action == "sell" and event.get("quantity_sold") == 0:
        b.unsellable.add(as_text(event.get("item_id")) or "")
        b.hold.doubt()


def _learn_arrival(b: Beliefs, event: Json) -> None:
    place, system = as_text(event.get("poi_id")), as_text(event.get("system_id"))
    if system and (not b.system.known or b.system.value == system):
        b.system.learn(system)
        b.came_from = as_text(event.get("from_system")) or b.came_from
    if place and not b.place.known:
        b.place.learn(place)


def _forget_ship(b: Beliefs) -> None:
    for fact in b.facts.values():
        fact.doubt()
    b.full = b.barren = b.no_base = False
    b.chart = None


def learn_refusal(
    b: Beliefs, code: str, tool: str, arguments: Mapping[str, Any]
) -> None:
    if lesson := LESSONS.get(code):
        lesson(b)
    elif code == "already_there":
        b.place.learn(as_text(arguments.get("target_poi")) or b.place.value or "")
    elif tool in ("travel", "jump"):
        b.place.doubt()


def _learn_barren(b: Beliefs) -> None:
    b.barren, b.digging = True, False


def _forget_place(b: Beliefs) -> None:
    b.chart, b.route, b.charted = None, (), False
    b.system.doubt()
    b.place.doubt()


# What the code of a refusal says about the world.
LESSONS: Mapping[str, Callable[[Beliefs], None]] = {
    "not_docked": lambda b: b.docked.learn(False),
    "docked": lambda b: b.docked.learn(True),
    "already_docked": lambda b: b.docked.learn(True),
    "cargo_full": lambda b: setattr(b, "full", True),
    "no_resources": _learn_barren,
    "not_asteroid": _learn_barren,
    "no_base": lambda b: setattr(b, "no_base", True),
    "fuel_full": lambda b: b.fuel.fill(),
    "hull_full": lambda b: b.hull.fill(),
    "no_fuel": lambda b: b.fuel.learn(0),
    "invalid_poi": _forget_place,
    "wrong_system": _forget_place,
    "not_connected": _forget_place,
    "already_in_system": _forget_place,
    "insufficient_items": lambda b: b.hold.doubt(),
    "invalid_item": lambda b: b.hold.doubt(),
    "no_cargo_space": lambda b: setattr(b, "full", True),
    "insufficient_credits": lambda b: b.credits.learn(0),
    "no_credits": lambda b: b.credits.learn(0),
}
