"""Two contexts beside each other: a call and the one before it, or two strategies.

Messages that differ are shown line by line, what both have folded away.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from typing import Any

from agents.dashboard import charts
from agents.dashboard.conversation import read_calls
from agents.dashboard.state_diff import StateChanges, compare_states
from memory.assembly.prepare import PreparedRequest
from memory.assembly.view_pairs import MessagePair, Side, compare_views
from memory.context.result_types import LedgerLine
from memory.models import SentContext

Wire = Mapping[str, Any]
# The messages of a request, and the system text that goes beside them.
Payload = tuple[Sequence[Wire], str | None]
# Lines of context around a change.
CONTEXT = 2
# Longer texts are told apart by their size alone: a map has thousands of lines.
MOST_LINES = 1_500
# What differs is compared message by message up to here.
MOST = 600
# Characters of a message since the last call, and of one under two strategies.
CHANGED_EXCERPT = 160
COMPARED_EXCERPT = 220
# More neighbours that one side alone sends are folded.
FEW = 6


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line: ``kind`` is same, added, removed, or fold where lines are left out."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class ChangedMessage:
    """One message: ``kind`` is added, removed, changed, or same after a change."""

    kind: str
    role: str
    excerpt: str
    lines: tuple[DiffLine, ...]


@dataclass(frozen=True, slots=True)
class RequestChanges:
    """Two requests of one Mysis, one after the other. Sizes are bytes of JSON.

    ``prefix`` messages begin both; what follows is not in a provider's cache.
    ``state`` is None where one of them tells nothing of the game.
    """

    prefix: int
    shared: int
    size: int
    steps: tuple[ChangedMessage, ...]
    state: StateChanges | None = None

    @property
    def percent(self) -> int:
        """How much of the request the one before began with."""
        return round(100 * self.shared / self.size) if self.size else 0


@dataclass(frozen=True, slots=True)
class StrategyColumn:
    """One strategy's sum. ``shared`` is what the last request began with too, and
    ``tokens`` None where a past call kept no count."""

    strategy: str
    name: str
    options: str
    status: str
    reason: str
    messages: int
    tokens: int | None
    size: int
    shared: int
    gauge: charts.Gauge | None

    @property
    def percent(self) -> int:
        """The share that a provider's cache may know already."""
        return min(100, round(100 * self.shared / self.size)) if self.size else 0


@dataclass(frozen=True, slots=True)
class ComparedSide:
    """What one strategy does with a message; ``place`` None where none is sent."""

    line: LedgerLine | None
    place: int | None
    excerpt: str


@dataclass(frozen=True, slots=True)
class ComparedMessage:
    """One message under both."""

    id: int | None
    role: str
    kind: str
    a: ComparedSide | None
    b: ComparedSide | None
    lines: tuple[DiffLine, ...]


@dataclass(frozen=True, slots=True)
class MessageRun:
    """Neighbours that are alike: ``kind`` is same, A or B (only that one sends them),
    or both. ``fate`` is what the other makes of all of them, empty where it does not
    consider them."""

    kind: str
    rows: tuple[ComparedMessage, ...]
    fate: str = ""

    @property
    def same(self) -> bool:
        return self.kind == "same"

    @property
    def folded(self) -> bool:
        """Whether they say little enough to stand behind one line."""
        return self.kind in "AB" and len(self.rows) > FEW


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both sums and every message, what is the same folded together."""

    a: StrategyColumn
    b: StrategyColumn
    differing: int
    runs: tuple[MessageRun, ...]

    @property
    def sides(self) -> tuple[StrategyColumn, StrategyColumn]:
        return self.a, self.b


def compare_texts(before: str, after: str) -> tuple[DiffLine, ...]:
    """The lines that differ, with two around them; empty for equal texts."""
    if before == after:
        return ()
    old, new = before.splitlines(), after.splitlines()
    if max(len(old), len(new)) > MOST_LINES:
        words = f"{len(old):,} lines became {len(new):,}: too many to lay side by side"
        return (DiffLine("fold", words),)
    found = tuple(_lines(old, new))
    return found or (DiffLine("fold", "only line ends or blanks at the end differ"),)


def _lines(old: list[str], new: list[str]) -> Iterator[DiffLine]:
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for count, group in enumerate(matcher.get_grouped_opcodes(CONTEXT)):
        if count or group[0][1]:
            yield DiffLine("fold", "…")
        for tag, a_from, a_to, b_from, b_to in group:
            if tag == "equal":
                yield from (DiffLine("same", line) for line in old[a_from:a_to])
                continue
            yield from (DiffLine("removed", line) for line in old[a_from:a_to])
            yield from (DiffLine("added", line) for line in new[b_from:b_to])


def read_text(content: Any) -> str:
    """A message's content as text; blocks of other dialects as JSON."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return json.dumps(content, indent=2, ensure_ascii=False)


def find_call_before(
    mysis_id: int, call: SentContext | None = None
) -> SentContext | None:
    """The context of the call before this one; without one, the newest."""
    rows = SentContext.objects.filter(mysis_id=mysis_id).order_by("-id")
    if call is not None:
        rows = rows.filter(pk__lt=call.pk)
    return rows.select_related("call__turn").defer("ledger").first()


def find_call_after(call: SentContext) -> SentContext | None:
    """The context of the call after one, without its payload."""
    rows = SentContext.objects.filter(mysis_id=call.mysis_id, pk__gt=call.pk)
    rows = rows.select_related("call__turn").defer("ledger", "view", "facts")
    return rows.order_by("id").first()


def compare_requests(
    old: Payload, new: Payload, *, whole: bool = True
) -> RequestChanges:
    """What a request has that the earlier one had not, and the other way round.

    Without ``whole`` only how they begin alike, which takes a fraction of the time.
    """
    first, second = _put_system_first(*old), _put_system_first(*new)
    keys, others = [_key(m) for m in first], [_key(m) for m in second]
    prefix = _shared_length(keys, others)
    sizes = [len(key.encode()) for key in others]
    return RequestChanges(
        prefix=prefix,
        shared=sum(sizes[:prefix])
        + _count_shared_bytes(keys[prefix:], others[prefix:]),
        size=sum(sizes),
        steps=tuple(_steps(first[prefix:], second[prefix:])) if whole else (),
        state=compare_states(first, second) if whole else None,
    )


def _put_system_first(messages: Sequence[Wire], system: str | None) -> list[Wire]:
    ahead = [] if system is None else [{"role": "system", "content": system}]
    return [*ahead, *messages]


def _key(message: Wire) -> str:
    return json.dumps(message, sort_keys=True, ensure_ascii=False)


def _shared_length(old: Sequence[str], new: Sequence[str]) -> int:
    """How many things two lists, or letters two texts, begin with alike."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(old), len(new)))


def _count_shared_bytes(old: Sequence[str], new: Sequence[str]) -> int:
    """How many bytes the first messages that differ have in common at their start."""
    if not old or not new:
        return 0
    return len(new[0][: _shared_length(old[0], new[0])].encode())


def _steps(old: Sequence[Wire], new: Sequence[Wire]) -> Iterator[ChangedMessage]:
    old, new = old[:MOST], new[:MOST]
    matcher = difflib.SequenceMatcher(
        None, [_key(m) for m in old], [_key(m) for m in new], autojunk=False
    )
    for tag, a_from, a_to, b_from, b_to in matcher.get_opcodes():
        if tag == "equal":
            yield from (_step("same", m, ()) for m in new[b_from:b_to])
        else:
            pairs = zip_longest(old[a_from:a_to], new[b_from:b_to])
            yield from (step for a, b in pairs for step in _pair(a, b))


def _pair(old: Wire | None, new: Wire | None) -> Iterator[ChangedMessage]:
    if old is not None and new is not None and old.get("role") == new.get("role"):
        yield _step("changed", new, compare_texts(_say(old), _say(new)))
        return
    if old is not None:
        yield _step("removed", old, ())
    if new is not None:
        yield _step("added", new, ())


def _step(kind: str, message: Wire, lines: tuple[DiffLine, ...]) -> ChangedMessage:
    excerpt = _excerpt(message, CHANGED_EXCERPT)
    return ChangedMessage(kind, str(message.get("role", "")), excerpt, lines)


def _say(message: Wire) -> str:
    """A message as text: what it says, then what it calls."""
    parts = [read_text(message.get("content"))]
    parts += [f"→ {c.name}({c.args})" for c in read_calls(message.get("tool_calls"))]
    return "\n".join(part for part in parts if part)


def _excerpt(message: Wire, most: int) -> str:
    return " ".join(_say(message)[: 2 * most].split())[:most]


def compare_strategies(
    a: PreparedRequest, b: PreparedRequest, names: tuple[str, str] = ("", "")
) -> Comparison:
    """Two views of one history; ``names`` tell them apart where strategies do not."""
    pairs = compare_views(a, b)
    return Comparison(
        a=_column(a, names[0]),
        b=_column(b, names[1]),
        differing=sum(not pair.same for pair in pairs),
        runs=tuple(
            MessageRun(kind, tuple(map(_compare_pair, group)), fate)
            for (kind, fate), group in groupby(pairs, key=_find_kind)
        ),
    )


def _column(prepared: PreparedRequest, name: str) -> StrategyColumn:
    options, messages = prepared.subject.options, prepared.assembly.messages
    stats = prepared.assembly.stats | {"options": options}
    return StrategyColumn(
        strategy=str(stats.get("strategy", prepared.subject.strategy)),
        name=name,
        options=", ".join(f"{k} {v}" for k, v in sorted(options.items())),
        status=prepared.assembly.status,
        reason=prepared.assembly.reason or "",
        messages=int(stats.get("messages_out", len(messages))),
        tokens=stats.get("tokens_out"),
        size=len(json.dumps(messages, ensure_ascii=False).encode()),
        shared=int(stats.get("prefix_shared_bytes") or 0),
        gauge=charts.make_gauge(stats),
    )


def _find_kind(pair: MessagePair) -> tuple[str, str]:
    """Which side alone sends a message, and what the other makes of it."""
    if pair.same:
        return "same", ""
    if pair.b.message is None:
        return "A", _fate(pair.b)
    return ("B", _fate(pair.a)) if pair.a.message is None else ("both", "")


def _fate(side: Side) -> str:
    return str(side.line.disposition) if side.line else ""


def _compare_pair(pair: MessagePair) -> ComparedMessage:
    lines: tuple[DiffLine, ...] = ()
    if pair.a.message is not None and pair.b.message is not None and not pair.same:
        lines = compare_texts(_say(pair.a.message), _say(pair.b.message))
    a, b = _make_side(pair.a), _make_side(pair.b)
    return ComparedMessage(pair.id, pair.role, pair.kind or "", a, b, lines)


def _make_side(side: Side) -> ComparedSide | None:
    if side.line is None and side.message is None:
        return None
    excerpt = _excerpt(side.message or {}, COMPARED_EXCERPT)
    return ComparedSide(side.line, side.position, excerpt)
