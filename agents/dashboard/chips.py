"""How many of the newest events are of which kind, for the chips above them.

Counted among the newest alone, so that it costs the same however long the log is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils import timezone
from django.utils.html import format_html
from django.utils.text import slugify

from agents.events import Kind
from agents.models import Event

from .feed import BAD, GROUP_OF, GROUPS, is_bad, tells
from .fragments import Fragment
from .shared import bucket, shared

COUNTED = 1_000
FACTS = ("tool", "ok", "state", "outcome", "confidence")


@dataclass(frozen=True, slots=True)
class Counts:
    """Of the newest events: all by kind, and those that are news by chip."""

    kinds: Mapping[str, int]
    groups: Mapping[str, int]


def look(now: datetime | None = None) -> Counts:
    """Counted once in ten seconds per process."""
    return shared.get(("chips", bucket(now or timezone.now())), _count)


def _count() -> Counts:
    rows = Event.objects.order_by("-xid", "-id")
    facts = [f"data__{name}" for name in FACTS]
    found = rows.values_list("kind", *facts)[:COUNTED]
    newest = [(kind, dict(zip(FACTS, told, strict=True))) for kind, *told in found]
    groups = Counter(
        group for kind, data in newest if tells(kind, data) for group in _of(kind, data)
    )
    return Counts(Counter(kind for kind, _ in newest), groups)


def _of(kind: str, data: Mapping[str, Any]) -> Iterable[str]:
    own = GROUP_OF.get(kind, "states")
    return {own, BAD} if is_bad(kind, data) else {own}


def place_of(kind: str) -> str:
    """The id of the element that counts a kind."""
    return f"kind-{slugify(kind)}"


def of_kinds() -> list[Fragment]:
    """The numbers on the chips of the events page."""
    kinds = look().kinds
    found = [
        Fragment(place_of(kind), format_html("{}", kinds.get(str(kind), 0)))
        for kind in Kind
    ]
    return [*found, Fragment("kind-all", format_html("{}", sum(kinds.values())))]


def of_groups() -> list[Fragment]:
    """The numbers on the chips of the feed."""
    groups = look().groups
    return [
        Fragment(f"group-{name}", format_html("{}", groups.get(name, 0)))
        for name in GROUPS
    ]
