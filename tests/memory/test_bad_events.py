"""Events of any size and form: kept or passed over, and never an exception."""

from __future__ import annotations

import json

import pytest
from django.utils import timezone

from memory.gamestate.extract import read_result
from memory.gamestate.render import render_block
from memory.models import AccountClock, GameEvent
from memory.snapshots import notifications, reads, writes
from tests.memory.capturing import at_tick, read_state_rows

pytestmark = pytest.mark.django_db

SHIP = {"ship": {"hull": 90, "max_hull": 100, "shield": 5, "fuel": 3, "cargo": []}}


def deep(levels):
    value: object = 1
    for _ in range(levels):
        value = {"x": value}
    return value


def told(*items, **answer):
    """Such an answer, as it comes over the wire."""
    text = json.dumps({"current_tick": 101, "notifications": list(items), **answer})
    return read_result([{"type": "text", "text": text}])


def fight(**data):
    return {"msg_type": "pirate_combat", "data": {"player_hull": 7, **data}}


@pytest.mark.parametrize(
    "result",
    [
        told(*[fight(n=n, said="x" * 9000) for n in range(1200)]),
        told(fight(x=deep(90))),
        told(fight(), extra=deep(400)),
        told(fight(tick="NaN"), fight(tick=-4), fight(tick="102"), fight(tick=1e300)),
        told(fight(player_hull=float("nan")), fight(player_hull=1e999)),
        told(fight(player_hull=-5), fight(player_hull="many"), fight(player_hull=[])),
        told(fight(), current_tick="-7", timestamp=-1e18),
        told({**fight(), "id": "\x00\ud800" * 200, "timestamp": "99999-01-01"}),
        told({**fight(), "id": 10**400, "timestamp": float("inf")}),
        told(fight(), timestamp=float("nan"), remaining="lots"),
    ],
    ids=["10 MB", "deep", "too deep", "ticks", "NaN", "numbers", "answer", "ids",
         "huge", "stamps"],
)  # fmt: skip
def test_any_answer_leaves_a_small_block_and_no_exception(result):
    at_tick(100)
    text = json.dumps(SHIP)
    asked = timezone.now()
    writes.capture_snapshot(username="Ada", tool="get_ship", args={}, text=text,
                  result=read_result(text), asked_at=asked)  # fmt: skip
    notifications.merge_notifications(username="Ada", result=result, asked_at=asked)
    found = reads.read_account_state("Ada", fetched=True)
    assert 0 < len(render_block(found).text.encode()) <= 2048
    assert len(read_state_rows("Ada")) == 1
    assert GameEvent.objects.count() <= 1000
    assert reads.read_tick("Ada") in (100, 101, 102)


NEVER = ["0001-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", 253402300799]


def capture_ship():
    text = json.dumps(SHIP)
    writes.capture_snapshot(username="Ada", tool="get_ship", args={}, text=text,
                  result=read_result(text), asked_at=timezone.now())  # fmt: skip


@pytest.mark.parametrize("stamp", NEVER)
@pytest.mark.parametrize("of_answer", [True, False])
def test_an_impossible_moment_counts_as_none(stamp, of_answer):
    """Go's zero time, also of a zone in which it is before our era."""
    known = AccountClock.objects.create(
        username="Ada", tick=100, seen_at=timezone.now(),
        offset_low=-9.0, offset_high=-8.0, offset_at=timezone.now(),
    )  # fmt: skip
    capture_ship()
    answer = {"timestamp": stamp} if of_answer else {}
    merge(told({**fight(), "id": "a", "timestamp": stamp}, **answer))
    merge(told({**fight(), "id": "b"}))
    capture_ship()
    merge(told({**fight(), "id": "c"}))
    kept = GameEvent.objects.order_by("pk")
    assert [(e.event_id, e.at, e.sent_at) for e in kept] == [
        ("a", None, None), ("b", None, None), ("c", None, None)
    ]  # fmt: skip
    learnt = AccountClock.objects.get()
    assert (learnt.offset_low, learnt.offset_high) == (-9.0, -8.0)
    assert learnt.offset_at == known.offset_at


def test_an_offset_that_was_learnt_wrong_is_forgotten():
    wrong = -2.5e11
    AccountClock.objects.create(
        username="Ada", tick=100, seen_at=timezone.now(),
        offset_low=wrong, offset_high=wrong, offset_at=timezone.now(),
    )  # fmt: skip
    capture_ship()
    merge(told({**fight(), "timestamp": timezone.now().isoformat()}))
    assert GameEvent.objects.get().at is not None


def merge(result):
    return notifications.merge_notifications(
        username="Ada", result=result, asked_at=timezone.now()
    )
