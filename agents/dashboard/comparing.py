"""Two strategies side by side: what either makes of every message."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from memory.difference import Pair, Side, difference
from memory.preview import Prepared

from . import charts
from .changes import said
from .textdiff import DiffLine, compare

EXCERPT = 220
FEW = 6


@dataclass(frozen=True, slots=True)
class Column:
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
class Part:
    """What one strategy does with a message; ``place`` None where none is sent."""

    disposition: str
    reason: str
    tokens: int | None
    place: int | None
    excerpt: str


@dataclass(frozen=True, slots=True)
class Row:
    """One message under both."""

    id: int | None
    role: str
    kind: str
    a: Part | None
    b: Part | None
    lines: tuple[DiffLine, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbours that are alike: ``kind`` is same, A or B (only that one sends them),
    or both. ``fate`` is what the other makes of all of them, empty where it does not
    consider them."""

    kind: str
    rows: tuple[Row, ...]
    fate: str = ""

    @property
    def same(self) -> bool:
        """Whether both make the same of them."""
        return self.kind == "same"

    @property
    def folded(self) -> bool:
        """Whether they say little enough to stand behind one line."""
        return self.kind in "AB" and len(self.rows) > FEW


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both sums and every message, what is the same folded together."""

    a: Column
    b: Column
    differing: int
    runs: tuple[Run, ...]


def of(a: Prepared, b: Prepared, names: tuple[str, str] = ("", "")) -> Comparison:
    """Two views of one history; ``names`` tell them apart where strategies do not."""
    pairs = difference(a, b)
    return Comparison(
        a=_column(a, names[0]),
        b=_column(b, names[1]),
        differing=sum(not pair.same for pair in pairs),
        runs=tuple(_runs(pairs)),
    )


def _column(prepared: Prepared, name: str) -> Column:
    options = prepared.subject.options
    stats = prepared.assembly.stats | {"options": options}
    return Column(
        strategy=str(stats.get("strategy", prepared.subject.strategy)),
        name=name,
        options=", ".join(f"{k} {v}" for k, v in sorted(options.items())),
        status=prepared.assembly.status,
        reason=prepared.assembly.reason or "",
        messages=int(stats.get("messages_out", len(prepared.assembly.messages))),
        tokens=stats.get("tokens_out"),
        size=_size(prepared),
        shared=int(stats.get("prefix_shared_bytes") or 0),
        gauge=charts.gauge(stats),
    )


def _size(prepared: Prepared) -> int:
    return len(json.dumps(prepared.assembly.messages, ensure_ascii=False).encode())


def _runs(pairs: Sequence[Pair]) -> Iterator[Run]:
    for (kind, fate), group in groupby(pairs, key=_kind):
        yield Run(kind, tuple(_row(pair) for pair in group), fate)


def _kind(pair: Pair) -> tuple[str, str]:
    """Which side alone sends a message, and what the other makes of it."""
    if pair.same:
        return "same", ""
    if pair.b.message is None:
        return "A", _fate(pair.b)
    return ("B", _fate(pair.a)) if pair.a.message is None else ("both", "")


def _fate(side: Side) -> str:
    return str(side.line.disposition) if side.line else ""


def _is_empty(side: Side) -> bool:
    return side.line is None and side.message is None


def _row(pair: Pair) -> Row:
    lines: tuple[DiffLine, ...] = ()
    if pair.a.message is not None and pair.b.message is not None and not pair.same:
        lines = compare(said(pair.a.message), said(pair.b.message))
    return Row(
        id=pair.id,
        role=pair.role,
        kind=pair.kind or "",
        a=_part(pair.a),
        b=_part(pair.b),
        lines=lines,
    )


def _part(side: Side) -> Part | None:
    if _is_empty(side):
        return None
    text = said(side.message) if side.message is not None else ""
    return Part(
        disposition=str(side.line.disposition) if side.line else "",
        reason=side.line.reason if side.line else "",
        tokens=side.line.tokens_out if side.line else None,
        place=side.position,
        excerpt=" ".join(text[: 2 * EXCERPT].split())[:EXCERPT],
    )
