"""A context beside the one of the call before: what a provider's cache still knows."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from memory.models import SentContext
from memory.shown import view_of

from .lines import calls
from .textdiff import DiffLine, compare
from .wording import text_of

Wire = Mapping[str, Any]
EXCERPT = 160
# What differs is looked at message by message up to here.
MOST = 600


@dataclass(frozen=True, slots=True)
class Step:
    """One message: ``kind`` is added, removed, changed, or same after a change."""

    kind: str
    role: str
    excerpt: str
    lines: tuple[DiffLine, ...]


@dataclass(frozen=True, slots=True)
class Changes:
    """Two requests of one Mysis, one after the other. Sizes are bytes of JSON.

    ``prefix`` messages begin both; what follows is not in a provider's cache.
    """

    prefix: int
    shared: int
    size: int
    total: int
    steps: tuple[Step, ...]
    earlier: SentContext | None = None

    @property
    def percent(self) -> int:
        """How much of the request the one before began with."""
        return round(100 * self.shared / self.size) if self.size else 0

    @property
    def fresh(self) -> int:
        """How many messages come after the common beginning."""
        return self.total - self.prefix


def before(mysis_id: int, call: SentContext | None = None) -> SentContext | None:
    """The context of the call before this one; without one, the newest."""
    rows = SentContext.objects.filter(mysis_id=mysis_id).order_by("-id")
    if call is not None:
        rows = rows.filter(pk__lt=call.pk)
    return rows.select_related("call__turn").defer("ledger").first()


def after(call: SentContext) -> SentContext | None:
    """The context of the call after one, without its payload."""
    rows = SentContext.objects.filter(mysis_id=call.mysis_id, pk__gt=call.pk)
    rows = rows.select_related("call__turn").defer("ledger", "view", "facts")
    return rows.order_by("id").first()


def since(
    earlier: SentContext, messages: Sequence[Wire], system: str | None
) -> Changes:
    """What a request has that the earlier one had not, and the other way round."""
    old, old_system = view_of(earlier)
    return replace(beside(old, old_system, messages, system), earlier=earlier)


def beside(
    old: Sequence[Wire],
    old_system: str | None,
    messages: Sequence[Wire],
    system: str | None,
) -> Changes:
    """Any two requests."""
    first, second = whole(old, old_system), whole(messages, system)
    keys, others = [_key(m) for m in first], [_key(m) for m in second]
    prefix = _prefix(keys, others)
    sizes = [len(key.encode()) for key in others]
    return Changes(
        prefix=prefix,
        shared=sum(sizes[:prefix]) + _begin(keys[prefix:], others[prefix:]),
        size=sum(sizes),
        total=len(second),
        steps=tuple(_steps(first[prefix:], second[prefix:])),
    )


def whole(messages: Sequence[Wire], system: str | None) -> list[Wire]:
    """All messages, the system text before them where it goes apart."""
    ahead: list[Wire] = []
    if system is not None:
        ahead.append({"role": "system", "content": system})
    return [*ahead, *messages]


def _key(message: Wire) -> str:
    return json.dumps(message, sort_keys=True, ensure_ascii=False)


def _prefix(old: Sequence[str], new: Sequence[str]) -> int:
    """How many things two lists, or letters two texts, begin with alike."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(old), len(new)))


def _begin(old: Sequence[str], new: Sequence[str]) -> int:
    """How many bytes the first messages that differ have in common at their start."""
    if not old or not new:
        return 0
    return len(new[0][: _prefix(old[0], new[0])].encode())


def _steps(old: Sequence[Wire], new: Sequence[Wire]) -> Iterator[Step]:
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


def _pair(old: Wire | None, new: Wire | None) -> Iterator[Step]:
    if old is not None and new is not None and old.get("role") == new.get("role"):
        yield _step("changed", new, compare(said(old), said(new)))
        return
    if old is not None:
        yield _step("removed", old, ())
    if new is not None:
        yield _step("added", new, ())


def _step(kind: str, message: Wire, lines: tuple[DiffLine, ...]) -> Step:
    excerpt = " ".join(said(message)[: 2 * EXCERPT].split())[:EXCERPT]
    return Step(kind, str(message.get("role", "")), excerpt, lines)


def said(message: Wire) -> str:
    """A message as text: what it says, then what it calls."""
    parts = [text_of(message.get("content"))]
    parts += [f"→ {c.name}({c.args})" for c in calls(message.get("tool_calls"))]
    return "\n".join(part for part in parts if part)
