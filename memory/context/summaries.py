"""The stored summary in the place of what it covers (L5, L6, A14, A15, I22)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from memory.context.text import shorten
from memory.context.types import Summary
from memory.context.units import Fate, History, Item, Unit

SUFFIX = "\n\nLast request from user was: "
_LABEL = "[Summary {generation} of the messages up to {through}. Prior context, no request.{status}]"
_DONE = " The request quoted at its end was answered: done unless the summary says otherwise."
_PENDING = " The request quoted at its end had no final answer yet: pending."
_BLOCK = re.compile(r"\[Summary \d+ of the messages up to \d+\. Prior context")


@dataclass(frozen=True, slots=True)
class Shown:
    """A log with its summary. `head` is the summary block, `units` what it leaves.

    `covers_intent` and `covers_newest` tell whether the newest order and the newest
    unit are told by the head alone.
    """

    head: tuple[Unit, ...]
    units: tuple[Unit, ...]
    fates: dict[int, Fate] = field(default_factory=dict)
    covers_intent: bool = False
    covers_newest: bool = False


def is_block(text: str) -> bool:
    """Whether a text of a view is the summary block, which is nobody's request."""
    return _BLOCK.match(text) is not None


def order_in(block: str) -> tuple[str, bool]:
    """The order quoted at the end of a summary block, and whether it was answered."""
    label, _, rest = block.partition("\n")
    _, found, order = rest.rpartition(SUFFIX)
    return (order if found else "", _DONE.strip() in label)


def show_summary(history: History) -> Shown:
    """The log with the given summary, which is used always once it exists.

    A unit is covered where all its rows are; one with an interim result never is
    (A31). What follows the covered span does not change the block (I25).
    """
    summary = history.summary
    text = history.sanitize(summary.text).strip() if summary else ""
    if summary is None or not text:
        return Shown((), history.units)
    covered: list[Unit] = []
    left: list[Unit] = []
    for unit in history.units:
        inside = max(unit.rows) <= summary.through_id and not unit.pending
        (covered if inside else left).append(unit)
    why = f"Told in the summary of the messages up to {summary.through_id}."
    fate = Fate("summarized", "summary", why)
    fates = {row: fate for unit in covered for row in unit.sources}
    orders = [unit for unit in history.units if unit.intent]
    return Shown(
        (_block(summary, text, covered, history),),
        tuple(left),
        fates,
        covers_intent=bool(orders) and orders[-1].rows[0] in fates,
        covers_newest=bool(history.units) and history.units[-1].rows[0] in fates,
    )


def _block(
    summary: Summary, text: str, covered: Sequence[Unit], history: History
) -> Unit:
    """Label, summary and the newest order in it, which stands verbatim at the end."""
    place = max((i for i, unit in enumerate(covered) if unit.intent), default=None)
    status = ""
    if place is not None:
        status = _DONE if _answered(covered[place + 1 :]) else _PENDING
    label = _LABEL.format(
        generation=summary.generation, through=summary.through_id, status=status
    )
    content = f"{label}\n\n{text}"
    if place is not None:
        content += _suffix(covered[place].items[0], content, history)
    item = Item("user", content, history.count(content), kind="summary")
    return Unit((item,), start=-1, required=True)


def _answered(after: Sequence[Unit]) -> bool:
    """Whether the agent finished with words of its own after the order."""
    return any(unit.role == "assistant" and not unit.items[0].calls for unit in after)


def _suffix(order: Item, before: str, history: History) -> str:
    """The newest order, in the middle shortened where it would fill the view (A15)."""
    limit = history.room // 2
    whole = SUFFIX + order.content
    if order.source is None or history.count(before + whole) <= limit:
        return whole
    room = max(1, limit - history.count(before + SUFFIX))
    handle = history.handle(order.source)
    cut = shorten(order.content, room, history.count, handle)
    if cut is None:  # not even the note fits half of it; the budget has the last word
        cut = shorten(order.content, 64, history.count, handle) or order.content
    return SUFFIX + cut
