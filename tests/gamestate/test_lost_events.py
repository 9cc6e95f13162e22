"""What lost events leave in doubt covers what events can change."""

from __future__ import annotations

import pytest
from hypothesis import given

from memory.gamestate import invalidation, values
from memory.gamestate.effects import LOST_EVENTS, LOST_SESSION
from memory.gamestate.merge import learn_account
from memory.gamestate.notices import may_lack_events
from memory.gamestate.types import Stale
from tests.gamestate.builders import NOW, TICK, snapshot
from tests.gamestate.merging import CONTENTS, ME, merge_events, notices


@given(notices())
def test_nothing_that_an_event_changes_is_believed_after_it_was_lost(events):
    around = learn_account(
        ME, [snapshot(name, each) for name, each in CONTENTS.items()]
    )
    hits = invalidation.find_lost(LOST_SESSION)
    for tool, content in CONTENTS.items():
        told = merge_events(snapshot(tool, content), events, around, TICK)
        doubted = told.stale.fields if told.stale else ()
        changed = [*told.field_ticks, *doubted]
        fields = [hit.fields for hit in hits if hit.hits(tool)]
        assert fields or not (told.stale or changed), tool
        for path in changed if () not in fields else ():
            covered = [
                f for each in fields for f in each if values.paths_overlap(f, path)
            ]
            assert covered, (tool, path)


def test_a_loss_doubts_what_was_asked_before_it_and_nothing_fixed():
    mark = Stale(LOST_EVENTS, 105, (), NOW, NOW)
    [ship] = invalidation.build_marks([mark], "get_ship", {})
    assert (ship.reason, ship.fields) == ("lost events", ())
    for tool in ("get_map", "get_version", "catalog", "captains_log_list"):
        assert invalidation.build_marks([mark], tool, {}) == ()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("No notifications.", False),
        ("", False),
        ("Count: 2\n\nNotifications (2)", True),
        ({"notifications": [], "remaining": 0}, False),
        ({"notifications": None}, False),
        ({"notifications": [{}] * 20, "remaining": 80}, True),
        ({"notifications": [{}] * 20, "remaining": 79}, False),
        ({"notifications": [{}] * 100}, True),
        ([{"notifications": [{}] * 100}], True),
        ({"result": {"notifications": [{}] * 100}}, True),
        ({"notifications": [], "remaining": "x"}, False),
        (None, False),
        (7, False),
    ],
)
def test_what_an_answer_does_not_tell_is_noticed(content, expected):
    assert may_lack_events(content) is expected
