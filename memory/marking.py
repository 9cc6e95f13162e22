"""Rows that something made untrue: by an action, or by events that were lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from django.db.models import QuerySet

from .gamestate import invalidation, paths
from .gamestate.invalidation import Invalidation
from .gamestate.types import Stale
from .models import GameSnapshot
from .rewriting import rewrite
from .stored import BEFORE_LOGOUT, marks_of, put_marks, put_stale, stale_of

MARKED = ["marks", "stale_reason", "stale_tick", "stale_fields", "field_ticks"]


@dataclass(frozen=True, slots=True)
class Touched:
    """A snapshot that an action made untrue, wholly or in some fields."""

    tool: str
    args: Mapping[str, object]
    fields: tuple[str, ...]
    reason: str
    tick: int | None


def mark_rows(
    username: str, hits: Sequence[Invalidation], action: Stale
) -> list[Touched]:
    """Mark the account's rows that an action hits; the caller holds its lock.

    Returns those whose confidence changed by it: what was untrue before is marked
    anew, but it is no news.
    """
    rows, changed = [], []
    for row in _in_order(username) if hits else ():
        here = [hit for hit in hits if hit.hits(row.tool_name)]
        if not here:
            continue
        before = _doubts(row)
        touched = _mark(row, here, action)
        rows.append(row)
        if _doubts(row) != before:
            changed.append(touched)
    rewrite(rows, MARKED)
    return changed


def _in_order(username: str) -> QuerySet[GameSnapshot]:
    """An account's rows without their long texts, in the one order of their locks."""
    rows = GameSnapshot.objects.filter(username=username)
    return rows.defer("content", "merged").order_by("pk")


def _doubts(row: GameSnapshot) -> tuple[bool, frozenset[str], frozenset[str]]:
    """What of a row is in doubt, and what of it events have told."""
    doubted = frozenset(row.stale_fields)
    return bool(row.stale_reason), doubted, frozenset(row.field_ticks)


def _mark(row: GameSnapshot, hits: Iterable[Invalidation], action: Stale) -> Touched:
    """Give a row the mark of an action, and take back what was merged of it."""
    new: Stale | None = None
    for hit in hits:
        new = invalidation.mark(new, hit, action.reason, action.tick)
    assert new is not None  # noqa: S101 (there is at least one hit)
    new = replace(new, at=action.at, done=action.done)
    put_marks(row, (*marks_of(row.marks), new))
    if row.stale_reason != BEFORE_LOGOUT:
        before = filter(None, [stale_of(row)])
        put_stale(row, invalidation.joined([*before, new], action.tick))
    row.field_ticks = {
        path: tick
        for path, tick in row.field_ticks.items()
        if new.fields and not any(paths.overlap(path, f) for f in new.fields)
    }
    return Touched(row.tool_name, row.args, new.fields, new.reason, new.tick)
