"""Two views of one history, message by message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from memory.context.types import Assembly, LedgerLine, Message

from .preview import Prepared

Wire = Mapping[str, Any]

#: Messages that stand for no stored one and come before all that do.
AHEAD = ("prompt", "filler", "summary")


@dataclass(frozen=True, slots=True)
class Side:
    """What one strategy makes of a message; ``message`` is null where none is sent."""

    line: LedgerLine | None
    message: Wire | None
    position: int | None


@dataclass(frozen=True, slots=True)
class Pair:
    """One message under both. ``id`` is null for one made up; then ``kind`` is set."""

    id: int | None
    role: str
    kind: str | None
    a: Side
    b: Side

    @property
    def same(self) -> bool:
        """Whether both send the same of it, or neither sends it.

        But for the ids of calls, which are made anew for every view (I7).
        """
        return _without_ids(self.a.message) == _without_ids(self.b.message)


def _without_ids(message: Wire | None) -> Wire | None:
    if message is None:
        return None
    kept = {key: value for key, value in message.items() if key != "tool_call_id"}
    for key in ("tool_calls", "content"):
        if isinstance(kept.get(key), list):
            kept[key] = [_unnamed(item) for item in kept[key]]
    return kept


def _unnamed(block: Any) -> Any:
    if not isinstance(block, Mapping):
        return block
    return {k: v for k, v in block.items() if k not in ("id", "tool_use_id")}


NOTHING = Side(None, None, None)


def difference(a: Prepared, b: Prepared) -> list[Pair]:
    """Every message that either considered or made up, in the order of the log."""
    roles = {m.id: m for m in (*a.request.messages, *b.request.messages)}
    first, second = _sides(a.assembly), _sides(b.assembly)
    stored = [
        _pair(number, roles[number], first, second)
        for number in sorted({*first, *second} & {*roles})
    ]
    made_up = list(_made_up(a.assembly, b.assembly))
    ahead = [pair for pair in made_up if pair.kind in AHEAD]
    return [*ahead, *stored, *(pair for pair in made_up if pair.kind not in AHEAD)]


def _pair(
    number: int,
    message: Message,
    first: Mapping[int, Side],
    second: Mapping[int, Side],
) -> Pair:
    a, b = first.get(number, NOTHING), second.get(number, NOTHING)
    return Pair(number, message.role, None, a, b)


def _sides(assembly: Assembly) -> dict[int, Side]:
    places: dict[int, int] = {}
    for position, source in enumerate(assembly.sources):
        for number in _ids(source):
            places[number] = position
    return {
        line.id: _side(assembly, places.get(line.id), line) for line in assembly.ledger
    }


def _ids(source: Any) -> Iterable[int]:
    if source is None:
        return ()
    return source if isinstance(source, list) else (source,)


def _side(assembly: Assembly, position: int | None, line: LedgerLine | None) -> Side:
    message = None if position is None else assembly.messages[position]
    return Side(line, message, position)


def _made_up(a: Assembly, b: Assembly) -> Iterable[Pair]:
    """What stands for no stored message, paired by its kind and count."""
    first, second = _by_kind(a), _by_kind(b)
    for key in {**first, **second}:
        one, other = first.get(key, NOTHING), second.get(key, NOTHING)
        shown = one.message or other.message or {}
        yield Pair(None, str(shown.get("role", "user")), key[0], one, other)


def _by_kind(assembly: Assembly) -> dict[tuple[str, int], Side]:
    found: dict[tuple[str, int], Side] = {}
    for each in assembly.synthetic:
        count = sum(kind == each.kind for kind, _ in found)
        found[each.kind, count] = _side(assembly, each.position, None)
    return found
