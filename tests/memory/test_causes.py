"""The causes of a doubt are kept with a snapshot, beside its paths."""

from __future__ import annotations

from django.utils import timezone

from memory.gamestate.invalidation import join_marks
from memory.gamestate.types import Stale
from memory.models import GameSnapshot
from memory.models.game import MOST_MARKS, parse_marks


def store(mark: Stale | None) -> GameSnapshot:
    row = GameSnapshot(
        username="Ada", tool_name="get_status", content="{}", captured_at=timezone.now()
    )
    row.set_joined_mark(mark)
    row.save()
    return GameSnapshot.objects.get()


def test_what_each_action_touched_is_read_back(db: None) -> None:
    marks = Stale("travel", 4, ("ship.fuel",)), Stale("mine", 6, ("ship.cargo",))
    joined = join_marks(marks, 7)
    row = store(joined)
    assert row.get_joined_mark() == joined
    assert row.to_snapshot().stale == joined


def test_one_cause_is_kept_as_ever(db: None) -> None:
    row = store(join_marks([Stale("mine", 6, ("ship.cargo",))], 7))
    assert row.stale_fields == ["ship.cargo"]


def test_a_whole_snapshot_in_doubt_keeps_its_causes_too(db: None) -> None:
    marks = Stale("attack", 4), Stale("mine", 6, ("ship.cargo",))
    joined = join_marks(marks, 7)
    found = store(joined).get_joined_mark()
    assert found == joined
    assert found is not None
    assert found.fields == ()


def test_of_very_many_marks_the_oldest_keep_what_each_touched() -> None:
    """Joined again after an event, none of them gets the name of another."""
    row = GameSnapshot(username="Ada", tool_name="get_status")
    kept: tuple[Stale, ...] = (Stale("travel", 0, ("ship.fuel",)),)
    for tick in range(1, 4 * MOST_MARKS):
        row.set_marks((*kept, Stale("mine", tick, ("ship.cargo",))))
        kept = parse_marks(row.marks)
        assert len(kept) <= 2 * MOST_MARKS
    assert kept[0] == Stale("travel", 0, ("ship.fuel",))
    joined = join_marks(kept, 99)
    assert joined is not None
    assert [(one.reason, one.fields) for one in joined.causes] == [
        ("travel", ("ship.fuel",)),
        ("mine", ("ship.cargo",)),
    ]
