"""Whether an answer shows where the ship is, or that it is under way."""

from __future__ import annotations

from collections.abc import Mapping

from memory.gamestate.extract import as_tick
from memory.gamestate.paths import first, lookup, primary

FLIGHTS = frozenset({"travel", "jump"})
"""Actions that last as long as the way is."""

NEED_REST = frozenset(
    {"travel", "jump", "mine", "dock", "undock", "buy", "sell", "refuel", "repair"}
    | {"attack", "craft", "survey_system"}
)
"""Actions that the game refuses while the ship flies."""

SETTLES = "get_system"
"""The tool whose answer always tells whether the ship rests."""

TELLS_TICK = "get_notifications"
"""The tool whose answer tells the current tick."""

_PLACES: Mapping[str, tuple[str, ...]] = {
    "get_system": ("system", "pois"),
    "get_poi": ("poi",),
    "get_base": ("base",),
    "get_nearby": ("poi_id",),
    "get_status": ("player.docked_at_base",),
}
"""Where an answer holds something, the ship rests."""

_HERE = ("player.current_poi", "current_poi", "location.poi_id")
_SYSTEM = ("player.current_system", "current_system", "location.system_id")
_TARGETS = ("target_poi", "target_system", "poi_id", "system_id", "id", "target")


def shows_at_rest(tool: str, content: object) -> bool:
    """Whether an answer shows the ship at a place; what does not say so does not."""
    root = primary(content)
    if not isinstance(root, Mapping):
        return False
    told = [lookup(root, path) for path in ("in_transit", "location.in_transit")]
    if any(told):
        return False
    return False in told or bool(first(root, *_PLACES.get(tool, ())))


def shows_arrival(tool: str, content: object, target: str) -> bool:
    """Whether an answer shows the ship where a flight was to go."""
    if tool not in ("get_status", "get_state") or not target:
        return False
    root = primary(content)
    return target in (first(root, *_HERE), first(root, *_SYSTEM))


def ticks_left(content: object) -> int | None:
    """How long an answer says that the ship still flies; None if it does not say."""
    root = primary(content)
    if not lookup(root, "in_transit") and not lookup(root, "location.in_transit"):
        return None
    return as_tick(first(root, "ticks_remaining", "location.ticks_remaining"))


def target_of(args: Mapping[str, object]) -> str:
    """Where a flight goes, by its arguments; "" where they do not say."""
    found = (args.get(name) for name in _TARGETS)
    return next((value for value in found if isinstance(value, str)), "")
