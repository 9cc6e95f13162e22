"""What the game told of late, as a section of the state block.

Events are read once and then gone from the game's queue. Where the program fetches
them itself, this is where the agent hears of them; all are kept, and merged into the
facts above.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memory.gamestate.layout import Entry, Section
from memory.gamestate.text import line
from memory.gamestate.types import AccountState, Happening

MOST = 6
"""How many of the newest events are shown."""

RECENT_TICKS = 20
"""Older ones are history: search and the facts tell of them."""

TOOL = "get_notifications"
MOST_VALUES = 4
LONGEST = 40


def happenings(state: AccountState) -> Section | None:
    """The newest events, oldest of them first; None where there are none of late."""
    found = [each for each in state.events if _is_recent(each, state)][-MOST:]
    if not found:
        return None
    heading = f"Events ({TOOL} - {_age(found[-1], state)}"
    return Section(heading, [Entry(_told(each)) for each in found], recall=TOOL)


def _is_recent(event: Happening, state: AccountState) -> bool:
    if event.tick is None or state.current_tick is None:
        return True
    return state.current_tick - event.tick <= RECENT_TICKS


def _age(event: Happening, state: AccountState) -> str:
    if event.tick is None or state.current_tick is None:
        return "of late"
    ticks = state.current_tick - event.tick
    return "just now" if ticks <= 0 else f"{ticks} ticks ago"


def _told(event: Happening) -> str:
    when = "" if event.tick is None else f" at tick {event.tick}"
    values = list(_values(event.data))[:MOST_VALUES]
    said = f": {', '.join(values)}" if values else ""
    return f"{line(event.kind, LONGEST)}{when}{said}"


def _values(data: Mapping[str, object]) -> Iterator[str]:
    """The plain values; an id gives way to the name that stands beside it."""
    for key, value in data.items():
        stem = key.removesuffix("_id")
        if key == "id" or (stem != key and (f"{stem}_name" in data or stem in data)):
            continue
        shown = line(value, LONGEST)
        if shown:
            yield f"{line(key.replace('_', ' '), LONGEST)} {shown}"
