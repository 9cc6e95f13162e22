"""Mining until the hold is full."""

from __future__ import annotations

import re

from agents.llm.pilot import speech
from agents.llm.pilot.situation import Decision, Situation

LOW_FUEL = 0.15
NEARLY_FULL = 0.8
"""Share of the hold at which a ship that is not mining any more heads home."""

_SOUNDS_MINABLE = re.compile(r"belt|asteroid|ice field|gas cloud|_field|_mines", re.I)


def at_work(s: Situation) -> Decision | None:
    """Mine where the ship is, as long as it makes sense."""
    if not can_mine_here(s) or must_return(s):
        return None
    done = s.act("I am at a place to mine and there is room in the hold.", "mine")
    if done or "mine" not in s.tools:
        return done
    return Decision(
        text=speech.stuck(list(s.transcript.calls())),
        thought="Mining is refused, and going elsewhere would not change that.",
    )


def can_mine_here(s: Situation) -> bool:
    """By what worked here, the chart, or the sound of the name."""
    b = s.beliefs
    if b.barren or not b.place.value:
        return False
    if b.digging:
        return True
    if b.here is not None:
        return b.here.minable
    return bool(_SOUNDS_MINABLE.search(b.place.value))


def must_return(s: Situation) -> bool:
    """Whether the hold or the tank says: go to a station."""
    b = s.beliefs
    if b.full or b.share(b.fuel, b.tank) < LOW_FUEL:
        return True
    if can_mine_here(s) or not b.capacity:
        return False
    return (b.used or 0) >= NEARLY_FULL * b.capacity


def is_empty(s: Situation) -> bool:
    """Whether the hold is known to be empty."""
    return s.beliefs.hold.known and not s.beliefs.hold.value
