"""Snapshots written at once have exactly the fields that were named, and no other row."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.utils import timezone

from memory.gamestate.types import Stale
from memory.models import GameSnapshot
from memory.models.game import parse_marks
from memory.snapshots.rows import rewrite_rows

pytestmark = pytest.mark.django_db

VALUES: dict[str, Any] = {
    "merged": 'text with "signs", \\u0041 and 漢字\n',
    "field_ticks": {"ship.fuel": 7},
    "counted": ["a", "b"],
    "marks": [{"reason": "mine", "tick": None, "fields": [], "at": None, "done": None}],
    "stale_reason": "mine",
    "stale_tick": 2**40,
    "stale_fields": ["ship"],
}


def made(tool: str) -> GameSnapshot:
    return GameSnapshot.objects.create(
        username="ada", tool_name=tool, content="{}", captured_at=timezone.now()
    )


@pytest.mark.parametrize("field", VALUES)
def test_only_what_is_named_is_written(field: str) -> None:
    first, other = made("get_ship"), made("get_cargo")
    for name, value in VALUES.items():
        setattr(first, name, value)
    rewrite_rows([first], [field])
    kept = GameSnapshot.objects.get(pk=first.pk)
    for name, value in VALUES.items():
        assert (getattr(kept, name) == value) is (name == field), name
    assert GameSnapshot.objects.filter(pk=other.pk).values().get() == {
        key: value for key, value in vars(other).items() if key != "_state"
    }


def test_many_rows_each_get_their_own() -> None:
    rows = [made(f"get_{n}") for n in range(5)]
    for place, row in enumerate(rows):
        row.stale_tick = place or None
    rewrite_rows(rows, ["stale_tick", "stale_fields"])
    found = GameSnapshot.objects.order_by("pk").values_list("stale_tick", flat=True)
    assert list(found) == [None, 1, 2, 3, 4]
    rewrite_rows([], ["marks"])


def test_marks_are_read_as_older_versions_wrote_them() -> None:
    """With an offset, without the moment when it was done, and one that is broken."""
    at = datetime(2026, 2, 5, 12, tzinfo=UTC)
    stored: list[dict[str, object]] = [
        {"reason": "mine", "tick": 7, "fields": ["cargo"], "at": at.isoformat()},
        {"reason": "sell", "tick": None, "fields": [], "at": None, "done": None},
        {"tick": "soon", "fields": None},
    ]
    *good, broken = parse_marks(stored)
    assert good == [Stale("mine", 7, ("cargo",), at), Stale("sell", None, ())]
    assert broken.fields == ()
    row = GameSnapshot()
    row.set_marks(good)
    assert parse_marks(row.marks) == tuple(good)
