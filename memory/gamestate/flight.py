"""Whether an answer shows where the ship is, or that it is under way."""

from __future__ import annotations

from collections.abc import Mapping

from memory.gamestate.paths import lookup, primary

FLIGHTS = frozenset({"travel", "jump"})
"""Actions that last as long as the way is."""

_PLACES = {"get_system": ("system", "pois"), "get_poi": ("poi",)}


def shows_at_rest(tool: str, content: object) -> bool:
    """Whether an answer shows the ship at a place; what does not say so does not."""
    root = primary(content)
    if not isinstance(root, Mapping):
        return False
    told = [lookup(root, path) for path in ("in_transit", "location.in_transit")]
    if any(told):
        return False
    return False in told or any(key in root for key in _PLACES.get(tool, ()))
