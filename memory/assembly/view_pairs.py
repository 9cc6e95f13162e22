"""The difference of two views of one log, message by message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from memory.assembly.prepare import PreparedRequest
from memory.context.result_types import Assembly, LedgerLine

Wire = Mapping[str, Any]
# Messages that stand for no stored one and come before all that do.
_AHEAD = ("prompt", "filler", "summary")


@dataclass(frozen=True, slots=True)
class Side:
    """What one strategy makes of a message; ``message`` is None where none is sent."""

    line: LedgerLine | None
    message: Wire | None
    position: int | None


@dataclass(frozen=True, slots=True)
class MessagePair:
    """One message under both. A made-up one has no ``id`` but a ``kind``."""

    id: int | None
    role: str
    kind: str | None
    a: Side
    b: Side

    @property
    def same(self) -> bool:
        """Whether both send the same of it, or neither sends it.

        The ids of calls do not count: they are made anew for every view (I7).
        """
        return _without_ids(self.a.message) == _without_ids(self.b.message)


_NOTHING = Side(None, None, None)


def compare_views(a: PreparedRequest, b: PreparedRequest) -> list[MessagePair]:
    """Every message that either view considered or made up, in the order of the log."""
    roles = {m.id: m for m in (*a.request.messages, *b.request.messages)}
    first, second = _sides(a.assembly), _sides(b.assembly)
    stored = [
        MessagePair(
            number,
            roles[number].role,
            None,
            first.get(number, _NOTHING),
            second.get(number, _NOTHING),
        )
        for number in sorted({*first, *second} & {*roles})
    ]
    made_up = list(_synthetic_pairs(a.assembly, b.assembly))
    ahead = [pair for pair in made_up if pair.kind in _AHEAD]
    return [*ahead, *stored, *(pair for pair in made_up if pair.kind not in _AHEAD)]


def _sides(assembly: Assembly) -> dict[int, Side]:
    places: dict[int | None, int] = {}
    for position, source in enumerate(assembly.sources):
        for number in source if isinstance(source, list) else [source]:
            places[number] = position
    return {
        line.id: _to_side(assembly, places.get(line.id), line)
        for line in assembly.ledger
    }


def _to_side(assembly: Assembly, position: int | None, line: LedgerLine | None) -> Side:
    message = None if position is None else assembly.messages[position]
    return Side(line, message, position)


def _synthetic_pairs(a: Assembly, b: Assembly) -> Iterable[MessagePair]:
    """What stands for no stored message, paired by its kind and count."""
    first, second = _by_kind(a), _by_kind(b)
    for key in {**first, **second}:
        one, other = first.get(key, _NOTHING), second.get(key, _NOTHING)
        shown = one.message or other.message or {}
        yield MessagePair(None, str(shown.get("role", "user")), key[0], one, other)


def _by_kind(assembly: Assembly) -> dict[tuple[str, int], Side]:
    found: dict[tuple[str, int], Side] = {}
    for each in assembly.synthetic:
        count = sum(kind == each.kind for kind, _ in found)
        found[each.kind, count] = _to_side(assembly, each.position, None)
    return found


def _without_ids(message: Wire | None) -> Wire | None:
    if message is None:
        return None
    kept = {key: value for key, value in message.items() if key != "tool_call_id"}
    for key in ("tool_calls", "content"):
        if isinstance(kept.get(key), list):
            kept[key] = [_without_block_ids(item) for item in kept[key]]
    return kept


def _without_block_ids(block: Any) -> Any:
    if not isinstance(block, Mapping):
        return block
    return {k: v for k, v in block.items() if k not in ("id", "tool_use_id")}
