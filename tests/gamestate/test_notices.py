"""Answers of get_notifications as events."""

from __future__ import annotations

from datetime import timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.gamestate.clock import SAME_CLOCK, Offset
from memory.gamestate.merge import learn_account
from memory.gamestate.notices import read_notices, read_offset
from memory.gamestate.render import render_block
from tests.gamestate.builders import NOW, PACE, TICK, payload, snapshot, state
from tests.gamestate.merging import (
    CARGO,
    CONTENTS,
    DATA,
    ME,
    YIELD,
    merge_events,
    value,
)


def read(answer, *, asked_at=None):
    """The notices of an answer now, of a game that may have our clock."""
    seen = read_offset(answer, asked_at, NOW)
    offset = None if seen is None else SAME_CLOCK.narrow(seen)
    return read_notices(answer, NOW, PACE, offset=offset)


def test_the_recorded_answers_are_read():
    with_events = payload("get_notifications.with_events")
    found = read_notices(with_events, NOW, PACE, 500)
    assert [each.kind for each in found] == ["poi_arrival", "ok"]
    assert found[0].id == with_events["notifications"][0]["id"]
    assert found[0].category == "system"
    for name in ("get_notifications", "get_notifications.pre_v0_44_4_empty"):
        assert read_notices(payload(name), NOW) == ()
    [flown] = read_notices(payload("travel.feb19_ws_action_result"), NOW)
    assert (flown.kind, flown.tick, flown.exact) == ("action_result", 109050, True)


def test_an_event_without_a_tick_gets_it_by_the_answers_clock():
    sent = NOW + timedelta(hours=3)
    answer = {
        "current_tick": 200,
        "timestamp": int(sent.timestamp()),
        "notifications": [
            {"id": "a", "msg_type": "mining_yield", "data": {},
             "timestamp": (sent - timedelta(seconds=25)).isoformat()},
            {"id": "a", "msg_type": "ok", "data": {}},
            {"msg_type": "ok", "data": {"action": "dock"}},
        ],
    }  # fmt: skip
    first, other = read(answer)
    assert (first.tick, first.exact, first.kind) == (198, False, "mining_yield")
    assert first.sent_at == sent - timedelta(seconds=25)
    assert first.at is not None
    assert abs(first.at - (NOW - timedelta(seconds=25))).total_seconds() <= first.slack
    assert first.slack > 0
    assert other.id.startswith("sha:")
    assert read(answer)[1].id == other.id


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["notifications", "data", "id", "type", "msg_type", "timestamp",
                         "tick", "current_tick", "result", "action", "ship", "player"])
        | st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(junk, junk, st.sampled_from(sorted(CONTENTS)))
def test_nothing_a_server_sends_raises(answer, content, tool):
    items = [
        {"id": "a", "msg_type": k, "data": answer} for k in (*DATA, "action_result")
    ]
    whole = {
        "notifications": [*items, answer],
        "current_tick": 106,
        "timestamp": answer,
    }
    for found in (read(answer), read(whole)):
        for body in (content, CONTENTS[tool]):
            row = snapshot(tool, {} if body is None else body)
            render_block(
                state(merge_events(row, found, learn_account(ME, [row]), TICK))
            )


@pytest.mark.parametrize(
    ("apart", "waited", "slack"),
    [(0.0, 0.0, 0.0), (0.9, 0.0, 0.0), (3.0, 2.5, 0.0), (-1.0, 0.5, 0.75),
     (2.0, 0.0, 0.5), (9.0, 0.0, 0.5), (9.0, 4.0, 2.5)],
)  # fmt: skip
def test_moments_are_as_sure_as_two_clocks_agree(apart, waited, slack):
    sent = NOW - timedelta(seconds=apart)
    answer = {"timestamp": int(sent.timestamp()), "notifications": [
        {"msg_type": "ok", "data": {}, "timestamp": sent.isoformat()}]}  # fmt: skip
    asked = NOW - timedelta(seconds=waited)
    [found] = read(answer, asked_at=asked)
    assert found.slack == pytest.approx(slack, abs=0.2)


def test_equal_events_without_an_id_are_as_many_as_they_are_told():
    """Twice five ores in one tick; the same answer again tells of no more."""
    one = {"msg_type": "mining_yield", "data": YIELD,
           "timestamp": (NOW - timedelta(seconds=1)).isoformat()}  # fmt: skip
    other = {**one, "timestamp": (NOW - timedelta(seconds=2)).isoformat()}
    answer = {"current_tick": TICK, "notifications": [one, one, other]}
    again = {"current_tick": TICK, "notifications": [other, one, one]}
    first, second = (read_notices(a, NOW, PACE) for a in (answer, again))
    assert len({each.id for each in first}) == 3
    assert {each.id for each in first} == {each.id for each in second}
    own = snapshot("get_cargo", CARGO)
    for told in (first, [*first, *second]):
        assert (
            value(merge_events(own, told, learn_account(ME, [own]), TICK), "used")
            == 12 + 15
        )
    # Told again before the queue was cleared, and one more.
    more = read_notices({**answer, "notifications": [one] * 3}, NOW, PACE)
    assert {each.id for each in first} > {each.id for each in more[:2]}
    assert len({each.id for each in (*more, *first)}) == 4


def test_an_own_id_never_passes_for_one_that_was_made_up():
    item = {"msg_type": "ok", "data": {"action": "dock"}}
    [made] = read_notices([item], NOW)
    [own] = read_notices([{**item, "id": made.id}], NOW)
    assert own.id.startswith("sha:") and own.id != made.id


FAR = ["0001-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00",
       253402300799, -62135596800, (NOW - timedelta(days=2)).isoformat()]  # fmt: skip


@pytest.mark.parametrize("stamp", FAR)
@pytest.mark.parametrize("offset", [None, Offset(-9.0, -8.0, NOW), Offset(8.0, 9.0)])
def test_a_stamp_that_nobody_can_mean_is_none(stamp, offset):
    event = {"msg_type": "ok", "data": {}, "timestamp": stamp}
    for told in ({"timestamp": stamp}, {"timestamp": int(NOW.timestamp())}, {}):
        answer = {"current_tick": TICK, "notifications": [event], **told}
        [found] = read_notices(answer, NOW, PACE, offset=offset)
        assert (found.at, found.sent_at, found.tick) == (None, None, None)
    assert read_offset({"notifications": [], "timestamp": stamp}, NOW, NOW) is None


def test_a_stamp_near_now_is_kept_in_utc_whatever_its_zone():
    """Zones of seconds and their parts are none that a database reads."""
    zone = timezone(timedelta(hours=1, seconds=1, microseconds=5))
    event = {
        "msg_type": "ok",
        "data": {},
        "timestamp": NOW.astimezone(zone).isoformat(),
    }
    [found] = read({"notifications": [event]})
    assert found.sent_at == NOW
    assert found.sent_at.utcoffset() == timedelta()
