"""Beliefs from what the game says by itself: refusals and notifications."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory.context.summaries import is_block, order_in
from memory.context.types import is_nudge
from sandbox.pilot.beliefs import Beliefs
from sandbox.pilot.reading import (
    Called,
    Entry,
    Heard,
    Json,
    Transcript,
    mapping,
    objects,
    text,
    whole,
)


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

# SECTION What people ask for, in plain words.

LONGEST = 500
"""A longer text is a summary or a report, not an order."""

PATIENCE = 12
"""Own calls after which a passing order (sell, explore, refuel) is left behind."""

PASSING = frozenset({"sell", "explore", "refuel"})
ONCE = frozenset({"report", "search", "note"})

_BROADCAST = re.compile(r"Latest word from your commander:\s*(.+)")

# Going somewhere and docking end in holding there, so they come before it.
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
    """Something to do; ``fresh`` where it was heard in this turn and not answered."""

    kind: str
    target: str = ""
    text: str = ""
    fresh: bool = False
    calls_since: tuple[Called, ...] = ()

    def done(self, *tools: str) -> bool:
        """Whether one of these calls was accepted since it was given."""
        return any(
            call.name in tools and not call.answer.is_error for call in self.calls_since
        )


def parse(text: str) -> tuple[str, str] | None:
    """The kind and target of the order in a text, None where there is none."""
    words = " ".join(text.split())
    if not words or len(words) > LONGEST:
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
    """The object of an order without what follows it."""
    first = re.split(r"[.!?;\n]|,| and | then ", words)[0]
    return re.sub(r"^(?:the|system|planet)\s+", "", first.strip().strip("\"'"))


def current_order(transcript: Transcript) -> Order | None:
    """The newest order in view, else the broadcast that the prompt carries."""
    entries = transcript.entries
    for index in range(len(entries) - 1, -1, -1):
        entry = entries[index]
        if not isinstance(entry, Heard) or is_nudge(entry.text):
            continue
        if is_block(entry.text):
            # What was done once is not done again because a summary quotes it.
            text, done = order_in(entry.text)
            found = parse(text)
            if found and not (done and found[0] in ONCE | PASSING):
                return Order(*found, text, calls_since=_since(entries, index))
            continue
        if found := parse(entry.text):
            since = _since(entries, index)
            return Order(*found, entry.text, index + 1 == len(entries), since)
    said = _BROADCAST.search(transcript.system)
    found = parse(said[1]) if said else None
    return Order(*found, said[1] if said else "") if found else None


def _since(entries: Sequence[Entry], index: int) -> tuple[Called, ...]:
    return tuple(e for e in entries[index + 1 :] if isinstance(e, Called))


def heard_now(transcript: Transcript) -> str:
    """What somebody said just now and was not answered yet, nudges left out."""
    last = transcript.entries[-1] if transcript.entries else None
    if isinstance(last, Heard) and not (is_nudge(last.text) or is_block(last.text)):
        return last.text if len(last.text) <= LONGEST else ""
    return ""
