"""What the feed tells of the fleet, and in which words."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from agents import events
from agents.dashboard import event_kinds, feed
from agents.dashboard.live import fragments
from agents.events import Kind
from agents.models import Event
from memory.models import Memory
from memory.redaction import sealed
from tests.factories import make_item, make_mysis, make_provider


def test_the_feed_leaves_out_looking_but_never_a_failure(db: None):
    mysis = make_mysis(name="Ada")
    calls = [("get_status", True), ("mine", True), ("get_ship", False)]
    items = [
        make_item(n, Kind.TOOL_CALLED, mysis.pk, tool=tool, ok=ok, arguments={})
        for n, (tool, ok) in enumerate(calls, 1)
    ]
    told = feed.make_news_lines(items)
    assert [line.text for line in told] == ["get_ship(): refused", "mine()"]
    for one in items:
        events.append(Kind.TOOL_CALLED, mysis_id=mysis.pk, data=one["data"])
    assert [line.text for line in feed.load_newest_feed()] == [
        line.text for line in told
    ]


def test_a_secret_that_is_sealed_later_is_hidden_in_lines_of_before(db: None):
    mysis = make_mysis(name="Ada")
    key = "a-key-4f2e9-of-mine"
    # The line is cut in its middle: what is left of it is no secret that is known.
    arguments = {"text": f"{'so ' * 62}{key}"}
    data = {"tool": "say", "ok": True, "arguments": arguments}
    events.append(Kind.TOOL_CALLED, mysis_id=mysis.pk, data=data)
    [line] = feed.load_newest_feed()
    assert "a-key-4" in line.text
    assert key not in line.text
    make_provider(name="openai", kind="openai", key=key)
    # As at the beginning of a request.
    sealed.expire()
    [line] = feed.load_newest_feed()
    assert "a-key" not in line.text


def test_growing_old_is_no_news(db: None):
    mysis = make_mysis(name="Ada")
    for number, level in enumerate(("ageing", "stale", "invalidated"), 1):
        data = {"tool": "get_map", "reason": "player_died", "confidence": level}
        events.append(Kind.SNAPSHOT_STALE, mysis_id=mysis.pk, data=data)
        items = [make_item(number, Kind.SNAPSHOT_STALE, mysis.pk, **data)]
        assert bool(feed.make_news_lines(items)) is (level == "invalidated")
    assert feed.load_newest_feed() == [], "staleness is shown under its own chip"
    [line] = feed.load_newest_feed("stale")
    assert (line.stale, line.text) == ("Map", "after player_died")


def test_what_an_action_made_stale_stands_on_its_line(db: None):
    ada, brahe = make_mysis(name="Ada"), make_mysis(name="Brahe")
    stale = [("get_status", "mine"), ("get_ship", "mine"), ("get_map", "jump")]
    items = [
        make_item(n, Kind.SNAPSHOT_STALE, ada.pk, tool=tool, reason=reason, tick=7)
        for n, (tool, reason) in enumerate(stale, 1)
    ]
    called = {"tool": "mine", "ok": True, "arguments": {}}
    items.append(make_item(4, Kind.TOOL_CALLED, brahe.pk, **called))
    items.append(make_item(5, Kind.TOOL_CALLED, ada.pk, **called))
    told = feed.make_news_lines(items)
    assert [(line.name, line.text, line.stale) for line in told] == [
        ("Ada", "mine()", ""),
        ("Brahe", "mine()", ""),
        ("Ada", "after jump at tick 7", "Map"),
        ("Ada", "after mine at tick 7", "Ship, Status"),
    ]
    told = feed.make_news_lines([*items[:2], items[3], items[4]])
    assert [(line.name, line.stale) for line in told] == [
        ("Ada", "Ship, Status"),
        ("Brahe", ""),
    ]


def test_every_kind_has_words(db: None):
    for kind in Kind:
        line = feed.make_feed_line(1, kind, timezone.now(), {}, None)
        assert line.text
        assert line.icon == event_kinds.KINDS[kind].icon


def test_a_summary_that_was_taken_back_is_not_told_as_a_compaction():
    told = [
        event_kinds.find_style(Kind.CONTEXT_COMPACTED).words(data)
        for data in ({"reason": "R."}, {"status": "reverted", "reason": "R."}, {})
    ]
    assert told == [
        "context compacted: R.",
        "summary taken back: R.",
        "context compacted",
    ]


def test_the_feed_says_what_happened_and_links_to_it(db: None):
    ada = make_mysis(name="Ada")
    said = {"memory_id": 4, "role": "assistant", "origin": "agent"}
    happened: list[tuple[Kind, dict[str, Any]]] = [
        (Kind.TURN_STARTED, {"turn": 70, "number": 7, "trigger": "nudge"}),
        (Kind.MEMORY_ADDED, {"memory_id": 5, "role": "tool", "origin": "tool"}),
        (Kind.MEMORY_ADDED, said),
        (Kind.TURN_FINISHED, {"turn": 70, "number": 7, "outcome": "done"}),
    ]
    named = feed.load_names([ada.pk])[ada.pk]
    now = timezone.now()
    told = [feed.make_feed_line(1, kind, now, data, named) for kind, data in happened]
    assert [(line.text, line.link) for line in told] == [
        ("turn 7 begins", "/turns/70/"),
        ("gets a tool result", "/myses/Ada/?at=5"),
        ("says", "/myses/Ada/?at=4"),
        ("turn 7 ends: done", "/turns/70/"),
    ]
    gone = feed.make_feed_line(9, Kind.MEMORY_ADDED, now, said, None)
    assert gone.link == ""


def test_a_call_is_told_by_its_outcome_and_leads_to_its_place(db: None):
    ada = make_mysis(name="Ada")
    sold: dict[str, Any] = {"tool": "sell", "arguments": {}, "ok": True}
    sold |= {"memory": 12, "turn": 7, "call": 2, "outcome": "sold 20 Iron Ore, +100 cr"}
    looks = {"tool": "get_notifications", "arguments": {}, "ok": True}
    told = {"outcome": "mined 5 Iron Ore", "told": 1, "memory": None, "turn": 8}
    by_hand = {"tool": "mine", "ok": True, "outcome": "mined", "by": "operator:ann"}
    for data in (sold, looks, looks | told, by_hand):
        events.append(Kind.TOOL_CALLED, mysis_id=ada.pk, data=data)
    found = feed.load_newest_feed()
    assert [(line.text, line.link) for line in found] == [
        ("mined (by hand, ann)", ""),
        ("mined 5 Iron Ore", "/turns/8/"),
        ("sold 20 Iron Ore, +100 cr", "/myses/Ada/?at=12"),
    ]
    happened = (sold, looks, looks | told, by_hand)
    items = [
        make_item(n, Kind.TOOL_CALLED, ada.pk, **one) for n, one in enumerate(happened)
    ]
    news = feed.make_news_lines(items)
    assert [line.text for line in news] == [line.text for line in found]


def test_messages_are_told_in_their_own_words(db: None):
    ada = make_mysis(name="Ada")
    call = {"id": "c", "function": {"name": "sell", "arguments": '{"quantity": 2}'}}
    answer = {"role": "tool", "origin": "tool", "tool_name": "sell"}
    rows: list[tuple[dict[str, Any], str]] = [
        ({"content": "Off to\n the belt."}, "says: Off to the belt."),
        ({"content": "", "tool_calls": [call]}, "calls sell(quantity=2)"),
        ({"content": "", "reasoning": "Where am I?"}, "thinks: Where am I?"),
        ({**answer, "content": '{"message": "Sold."}'}, "gets the result of sell: Sold."),
        (
            {"role": "user", "origin": "human", "sender": "operator:ann", "content": "Go"},
            "gets a message from ann: Go",
        ),
        ({"content": "password: 0123456789abcdef0"}, "says: password: [hidden]"),
    ]  # fmt: skip
    for values, _ in rows:
        given = {"role": "assistant", "origin": "agent", **values}
        row = Memory.objects.create(mysis=ada, **given)
        data = {"memory_id": row.pk, "role": row.role, "origin": row.origin}
        events.append(Kind.MEMORY_ADDED, mysis_id=ada.pk, data=data)
    found = feed.make_event_lines(Event.objects.order_by("pk"))
    assert [line.text for line in found] == [words for _, words in rows]
    Memory.objects.all().delete()
    gone = feed.make_event_lines(Event.objects.order_by("pk")[:1])
    assert [line.text for line in gone] == ["says"]


def test_a_chip_shows_its_own_however_much_else_happened(db: None):
    ada = make_mysis(name="Ada")
    events.append(Kind.ERROR, mysis_id=ada.pk, data={"detail": "It broke."})
    refused = {"tool": "sell", "arguments": {}, "ok": False, "error": "Not docked."}
    events.append(Kind.TOOL_CALLED, mysis_id=ada.pk, data=refused)
    for _ in range(feed.SHOWN + 5):
        data = {"tool": "mine", "arguments": {}, "ok": True}
        events.append(Kind.TOOL_CALLED, mysis_id=ada.pk, data=data)
    assert not [line for line in feed.load_newest_feed() if line.bad]
    bad = feed.load_newest_feed("bad")
    assert [line.text for line in bad] == ["sell(): refused: Not docked.", "It broke."]
    assert feed.load_newest_feed("orders") == []
    assert "Nothing under “Orders”" in fragments.draw_newest_feed("orders").html
    for group in ("nonsense", "acts"):
        assert len(feed.load_newest_feed(group)) == feed.SHOWN
