"""Which messages of people and of other Myses a view that tells the log anew quotes.

The mission comes first, then the orders that are open, the newest last (I17); then all
that other Myses said since the agent had the last word. Of what is too much to quote
the handles are named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memory.context.turn_digest import MOST_ORDERS
from memory.context.types import find_marked_peer
from memory.context.units import Fate, History, Item

MOST_PEER_MESSAGES = 20
# Handles in the line that stands for what is not quoted.
_MOST_HANDLES = 20
_NAMED = Fate("coalesced", "coalesced", "Named by its handle alone: over a limit.")
_NOT_QUOTED = Fate("coalesced", "coalesced", "Not quoted: answered, or no order.")


@dataclass(frozen=True, slots=True)
class QuotedMessages:
    """What is quoted, and the stored ids of the open orders and of the messages of other
    Myses that are not."""

    orders: tuple[Item, ...]
    peers: tuple[Item, ...]
    orders_left: tuple[int, ...]
    peers_left: tuple[int, ...]

    @property
    def rows(self) -> tuple[int, ...]:
        """The stored ids of all that is quoted."""
        items = (*self.orders, *self.peers)
        return tuple(item.source for item in items if item.source is not None)

    def find_fates(self, history: History) -> dict[int, Fate]:
        """What became of the messages of users that are not quoted."""
        rows = (r for unit in history.units if unit.role == "user" for r in unit.rows)
        left = {*self.orders_left, *self.peers_left}
        quoted = {*self.rows}
        return {
            r: _NAMED if r in left else _NOT_QUOTED for r in rows if r not in quoted
        }


def choose_quoted(history: History) -> QuotedMessages:
    """Choose what is quoted; the newest where there is too much."""
    orders = [unit.items[0] for unit in history.units if unit.intent]
    mission = _find_mission(orders, history)
    waiting = history.request.open_orders or ()
    same = [item for item in orders if mission and _is_same(item, mission)]
    shown = [
        item
        for item in orders
        if (item is orders[-1] or item.source in waiting) and item not in same
    ]
    quoted = (*([mission] if mission else ()), *shown[-MOST_ORDERS:])
    told = {item.source for item in (*quoted, *same)}
    peers = _find_peer_messages(history)
    return QuotedMessages(
        quoted,
        tuple(peers[-MOST_PEER_MESSAGES:]),
        tuple(row for row in waiting if row not in told),
        tuple(p.source for p in peers[:-MOST_PEER_MESSAGES] if p.source is not None),
    )


def _find_mission(orders: Sequence[Item], history: History) -> Item | None:
    request = history.request
    given = history.sanitize(request.mission or "")
    if given.strip():
        return Item("user", given, history.count(given), request.mission_id)
    people = {m.id for m in request.messages if m.origin == "human"}
    return next((item for item in orders if item.source in people), None)


def _is_same(item: Item, mission: Item) -> bool:
    if mission.source is not None:
        return item.source == mission.source
    return item.content == mission.content


def _find_peer_messages(history: History) -> list[Item]:
    """What other Myses said since the agent last answered without a call, in order."""
    found = []
    for unit in reversed(history.units):
        item = unit.items[0]
        if unit.role == "assistant" and not item.calls:
            break
        if unit.role == "user" and find_marked_peer(item.content):
            found.append(item)
    return found[::-1]


def write_state(item: Item, history: History) -> str:
    """The line below an order: its handle and whether it is open; empty if unknown."""
    waiting = history.request.open_orders
    if waiting is None or item.source is None:
        return ""
    state = "open" if item.source in waiting else "answered"
    return f"\n; order {history.handle(item.source)}, {state}"


def write_left(rows: Sequence[int], what: str, history: History) -> str:
    """`; and 3 more open: ...` with the handles of the newest; empty for none."""
    if not rows:
        return ""
    newest = rows[-_MOST_HANDLES:]
    dots = "..., " if len(newest) < len(rows) else ""
    handles = ", ".join(map(history.handle, newest))
    return f"; and {len(rows)} more {what}: {dots}{handles}"
