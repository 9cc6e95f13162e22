"""Numbers as the coordinates of small SVG drawings.

The strict content policy allows no inline styles, so widths and heights are SVG
attributes, worked out here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

CATEGORIES = (
    "system",
    "tools",
    "pins",
    "summary",
    "state",
    "user",
    "assistant",
    "tool",
)
HIGH, FULL = 0.70, 0.95
SPARK_HEIGHT = 20


@dataclass(frozen=True, slots=True)
class Segment:
    """One category's share of the context, in per cent of the whole width."""

    category: str
    tokens: int
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Gauge:
    """How full a context is. ``limit`` is the budget less the output reserve."""

    used: int
    limit: int
    percent: int
    level: str
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Bar:
    """One column of a sparkline; ``bad`` marks one that holds a failure."""

    x: int
    y: float
    height: float
    bad: bool


def gauge(stats: Mapping[str, object]) -> Gauge | None:
    """The gauge of a call's statistics (CONTEXT section 2), None without any."""
    counts = stats.get("tokens_by_category")
    if not isinstance(counts, Mapping):
        return None
    tokens = {name: _count(counts.get(name)) for name in CATEGORIES}
    used = sum(tokens.values())
    limit = max(1, _count(stats.get("budget")) - _count(stats.get("reserve")))
    share = used / limit
    level = "full" if share >= FULL else "high" if share >= HIGH else "ok"
    return Gauge(used, limit, round(share * 100), level, _segments(tokens, limit))


def _segments(tokens: Mapping[str, int], limit: int) -> tuple[Segment, ...]:
    whole = max(limit, sum(tokens.values()))
    found: list[Segment] = []
    x = 0.0
    for category, count in tokens.items():
        if count:
            width = 100 * count / whole
            found.append(Segment(category, count, round(x, 2), round(width, 2)))
            x += width
    return tuple(found)


def _count(value: object) -> int:
    return max(0, int(value)) if isinstance(value, int | float) else 0


def bars(counts: Sequence[int], failures: Sequence[int]) -> tuple[Bar, ...]:
    """Columns of width 4 with a gap of 2, as high as their share of the most."""
    most = max([*counts, 1])
    found = []
    for place, (count, failed) in enumerate(zip(counts, failures, strict=True)):
        height = max(2.0, SPARK_HEIGHT * count / most) if count else 1.0
        y = SPARK_HEIGHT - height
        found.append(Bar(place * 6, round(y, 2), round(height, 2), failed > 0))
    return tuple(found)
