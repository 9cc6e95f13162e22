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
    Heard,
    Json,
    Transcript,
    as_mapping,
    as_objects,
    as_text,
    as_whole,
)

# A longer text is a summary or a report, not an order.
MAX_ORDER = 500
# Own calls after which a passing order is forgotten.
PATIENCE = 12

# Orders that pass, each with the call that ends it.
PASSING = {"sell": "undock", "explore": "jump", "refuel": "refuel"}
ONCE = frozenset({"report", "search", "note"})

_BROADCAST = re.compile(r"Latest word from your commander:\s*(.+)")

# "goto" and "dock" end in holding there, so they stand before "hold".
_PATTERNS: tuple[tuple[str, str], ...] = (
    ("search", r"\b(?:search|look up|recall)\b(?:.*?\b(?:for|about)\b)?\s+(.+)"),
    ("search", r"\bwhat (?:did|do|have) (?:you|we|i)\b.*\b(?:about|on|of)\s+(.+)"),
    ("note", r"\b(?:log|note|write down|remember)(?: this| that)?\s*:\s*(.+)"),
    ("goto", r"\b(?:go|travel|fly|head|move|jump|proceed) (?:back )?to\s+(.+)"),
    ("dock", r"\b(?:dock|return to (?:the )?(?:base|station|port)|come home)\b"),
    ("sell", r"\bsell\b"),
    ("refuel", r"\brefuel\b"),
    ("hold", r"\b(?:stop|halt|hold|wait|pause|stand down|stay|cease)\b"),
    ("report", r"\b(?:report|status|where are you|how are you|sitrep)\b"),
    ("explore", r"\b(?:explore|scout)\b"),
    ("mine", r"\b(?:mine|mining|resume|continue|carry on|undock|go on)\b"),
)
_ORDERS = tuple((kind, re.compile(words, re.I)) for kind, words in _PATTERNS)
_NOT = re.compile(r"\b(?:don'?t|do not|never|no longer)\s+(?:ever\s+)?$", re.I)
_STATION = re.compile(r"^(?:the |a |your |nearest )*(?:station|base|port|home|dock)\b")


@dataclass(frozen=True, slots=True)
class Order:
    """An order; ``fresh``: it was heard in this turn and is not answered yet."""

    kind: str
    target: str = ""
    text: str = ""
    fresh: bool = False
    calls_since: tuple[Called, ...] = ()

    def was_done_by(self, tool: str) -> bool:
        """Whether a call of this tool was accepted since it was given."""
        return any(c.name == tool and not c.answer.is_error for c in self.calls_since)


def find_current_order(transcript: Transcript) -> Order | None:
    """The newest order in view, else the broadcast in the system prompt."""
    entries = transcript.entries
    for index, entry in reversed(list(enumerate(entries))):
        if not isinstance(entry, Heard) or is_nudge(entry.text):
            continue
        if find_marked_peer(entry.text):
            continue
        text, fresh, done = entry.text, index + 1 == len(entries), False
        if is_summary_block(text):
            # A summary quotes old orders: what was done is not done again.
            (text, done), fresh = find_quoted_order(text), False
        found = parse_order(text)
        if found and not (done and found[0] in {*ONCE, *PASSING}):
            since = [e for e in entries[index + 1 :] if isinstance(e, Called)]
            return Order(*found, text, fresh, tuple(since))
    said = _BROADCAST.search(transcript.system)
    found = parse_order(said[1]) if said else None
    return Order(*found, said[1] if said else "") if found else None


def is_human(text: str) -> bool:
    """Whether a text of the user role is no nudge, no summary and of no other Mysis."""
    return not (is_nudge(text) or is_summary_block(text) or find_marked_peer(text))


def find_unanswered(transcript: Transcript) -> str:
    """The text that was heard last, if it is not answered yet; not of a nudge."""
    last = transcript.entries[-1] if transcript.entries else None
    if isinstance(last, Heard) and is_human(last.text) and len(last.text) <= MAX_ORDER:
        return last.text
    return ""


def parse_order(text: str) -> tuple[str, str] | None:
    """The kind and target of the order in a text, or None."""
    words = " ".join(text.split())
    if not words or len(words) > MAX_ORDER:
        return None
    for kind, pattern in _ORDERS:
        found = pattern.search(words)
        if not found or _NOT.search(words[: found.start()]):
            continue
        target = _target(found[1]) if found.groups() else ""
        if kind == "goto" and _STATION.match(target.casefold()):
            return "dock", ""
        return kind, target
    return None


def _target(words: str) -> str:
    first = re.split(r"[.!?;\n]|,| and | then ", words)[0]
    return re.sub(r"^(?:the|system|planet)\s+", "", first.strip().strip("\"'"))


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
