"""No single tool result may fill a view, whatever the strategy."""

from __future__ import annotations

from collections.abc import Iterable

from memory.context.text import shorten
from memory.context.tokens import Counter
from memory.context.types import handle_of
from memory.context.units import Fate, Item, Unit


def cap_results(
    units: Iterable[Unit], cap: int, count: Counter, mysis: str
) -> tuple[list[Unit], dict[int, Fate]]:
    """Every result over `cap` tokens cut to its head and tail, with a handle."""
    fates: dict[int, Fate] = {}
    reason = f"A tool result may take {cap} tokens; head and tail are sent."

    def capped(item: Item) -> Item:
        if item.role != "tool" or item.tokens <= cap or item.source is None:
            return item
        text = shorten(item.content, cap, count, handle_of(mysis, item.source))
        if text is None:
            return item
        fates[item.source] = Fate("truncated", "result_cap", reason)
        return item.with_text(text, count(text))

    return [
        unit.with_items(tuple(map(capped, unit.items)))
        if any(item.tokens > cap for item in unit.items)
        else unit
        for unit in units
    ], fates
