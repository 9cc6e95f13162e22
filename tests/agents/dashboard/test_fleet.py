"""What the live pages are made of: what they take in, their rows and figures."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from agents import actions, events
from agents.dashboard import charts, conversation, event_kinds, feed, fleet
from agents.dashboard.live import fragments
from agents.dashboard.live.changes import Dirty
from agents.dashboard.live.fleet_page import FleetPage
from agents.dashboard.live.mysis_page import MysisPage
from agents.dashboard.mysis import load_head
from agents.dashboard.shared_results import RECHECK_SHARED, SharedResults, shared
from agents.events import Item, Kind
from agents.models import Event, Mysis
from bench.pages.scenes import TICK, add_account, add_conversation, add_turns
from memory.gamestate.confidence import LOGGED_OUT
from memory.gamestate.invalidation import join_marks
from memory.gamestate.types import Stale
from memory.models import GameSnapshot, Memory
from memory.models.game import BEFORE_LOGOUT
from memory.redaction import sealed
from tests.factories import make_memory, make_mysis, make_turn


def item(number: int, kind: str, mysis: int | None = None, **data: Any) -> Item:
    """An event as the hub hands it out."""
    at = events.format_moment(timezone.now())
    return Item(id=number, kind=kind, at=at, mysis=mysis, data=data)


def test_a_gap_is_bridged_by_starting_from_the_newest_page(db: None):
    mysis = make_mysis(name="Ada")
    rows = [make_memory(mysis, content=f"order {n}.") for n in range(260)]
    page = MysisPage(mysis, after=rows[0].pk)
    [*_, log] = page.draw_all(0)
    assert re.match('<div id="log" data-v="[0-9a-f]+" hx-swap-oob="innerHTML">', log)
    assert "order 259." in log
    assert "order 100." not in log
    assert f"before={rows[210].pk}" in log
    assert page.talk.after == rows[-1].pk


def test_a_pending_answer_is_sent_once_when_it_comes(db: None):
    mysis = make_mysis(name="Ada")
    row = make_memory(mysis, role="tool", content="", pending=True, tool_name="mine")
    page = MysisPage(mysis, after=0)
    page.draw_all(0)
    dirty = Dirty()
    dirty.add(item(1, Kind.MEMORY_ADDED, mysis.pk))
    assert not any(f"line-{row.pk}" in part for part in page.draw_changes(dirty))
    row.content, row.pending = "got 3 ore", False
    row.save()
    dirty.add(item(2, Kind.MEMORY_ADDED, mysis.pk))
    [swap] = [part for part in page.draw_changes(dirty) if f"line-{row.pk}" in part]
    assert 'hx-swap-oob="outerHTML"' in swap
    dirty.add(item(3, Kind.MEMORY_ADDED, mysis.pk))
    assert not any(f"line-{row.pk}" in part for part in page.draw_changes(dirty))


def test_a_filtered_page_takes_in_and_lets_go(db: None):
    ada = make_mysis(name="Ada", state="running")
    make_mysis(name="Brahe", state="stopped")
    page = FleetPage(fleet.FleetView(state="running"))
    page.draw_all(0)
    assert page.ids == [ada.pk]
    actions.stop_mysis(mysis=ada, by="system")
    dirty = Dirty()
    dirty.add(item(1, Kind.MYSIS_STATE, ada.pk))
    assert any(
        "No Mysis matches." in part for part in page.draw_changes(dirty.hand_out(60))
    )


def test_a_flush_takes_a_bounded_share(db: None):
    dirty = Dirty()
    for number in range(100):
        dirty.add(item(number + 1, Kind.TOOL_CALLED, number))
    assert len(dirty.hand_out(60).myses) == 60
    assert dirty
    assert len(dirty.hand_out(60).myses) == 40
    assert not dirty


def test_many_viewers_draw_once(db: None):
    shared = SharedResults(kept=2)
    made: list[str] = []

    def make(key: str) -> Callable[[], str]:
        def making() -> str:
            made.append(key)
            return key.upper()

        return making

    for key in ("a", "a", "b", "a"):
        assert shared.get(key, make(key)) == key.upper()
    assert made == ["a", "b"]
    shared.get("c", make("c"))
    shared.get("a", make("a"))
    assert made == ["a", "b", "c", "a"]


def test_a_failure_is_not_shared_for_ever(db: None):
    shared = SharedResults()
    with pytest.raises(ZeroDivisionError):
        shared.get("a", lambda: 1 // 0)
    assert shared.get("a", lambda: 1) == 1


# -- rows and figures ----------------------------------------------------------


def test_the_fleet_costs_the_same_queries_at_any_size(
    db: None, django_assert_num_queries: Any
):
    def add(name: str) -> None:
        mysis = make_mysis(name=name, state="running")
        add_account(mysis)
        add_conversation(mysis)
        add_turns(mysis, turns=2)

    now = timezone.now()
    add("Ada")
    # The rows of Myses that nobody has looked at yet are made, and once.
    with django_assert_num_queries(9):
        assert len(fleet.load_view(fleet.FleetView(), now).shown) == 1
    for number in range(4):
        add(f"M{number}")
    with django_assert_num_queries(9):
        assert len(fleet.load_view(fleet.FleetView(), now).shown) == 5
    with django_assert_num_queries(2):
        assert len(fleet.load_view(fleet.FleetView(), now).shown) == 5


def test_a_row_is_made_anew_once_something_happened_to_its_mysis(db: None):
    now = timezone.now()
    view = fleet.FleetView()
    ada, brahe = (make_mysis(name=name) for name in ("Ada", "Brahe"))
    first = fleet.load_view(view, now).shown
    make_memory(ada, content="Off to the belt.")
    assert fleet.load_view(view, now).shown == first
    events.append(Kind.MEMORY_ADDED, mysis_id=ada.pk, data={})
    said, same = fleet.load_view(view, now).shown
    assert said.said is not None
    assert said.said.text == "Off to the belt."
    assert same is first[1]
    Mysis.objects.filter(pk=brahe.pk).update(group="miners")
    assert fleet.load_view(view, now).shown[1].group == "miners"
    later = now + timedelta(seconds=RECHECK_SHARED)
    assert fleet.load_view(view, later).shown[0] is not said


def test_the_whole_page_costs_the_same_queries_at_any_size(
    admin_client: Client,
    django_assert_num_queries: Any,
    monkeypatch: pytest.MonkeyPatch,
):
    # Sums and the chips above the feed are counted once in ten seconds.
    day = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: day)
    for count in (1, 5):
        for number in range(count):
            ada = make_mysis(name=f"{count} {number}", state="running", stuck="No ore.")
            add_account(ada)
            add_conversation(ada)
            add_turns(ada, turns=2)
            events.append(Kind.ERROR, mysis_id=ada.pk, data={"detail": "It broke."})
        admin_client.get("/")
        # What has not changed is not read again; the head and the feed of a new event are.
        with django_assert_num_queries(7):
            assert admin_client.get("/?sort=name").status_code == 200
        # Without an address of its own the page looks for the user's default view.
        with django_assert_num_queries(8):
            assert admin_client.get("/").status_code == 200
        events.append(Kind.ERROR, mysis_id=ada.pk, data={"detail": "It broke again."})
        with django_assert_num_queries(22):
            assert b"It broke again." in admin_client.get("/").content


def test_a_snapshot_that_was_written_anew_is_read_anew(db: None):
    mysis = make_mysis(name="Ada", state="running")
    add_account(mysis, credits=5)
    [row] = fleet.load_rows([mysis.pk], timezone.now())
    assert row.standing.credits == 5
    found = GameSnapshot.objects.get(tool_name="get_status")
    found.content = found.content.replace('"credits": 5', '"credits": 6')
    found.save()
    [row] = fleet.load_rows([mysis.pk], timezone.now())
    assert row.standing.credits == 6
    found.delete()
    [row] = fleet.load_rows([mysis.pk], timezone.now())
    assert row.standing.credits is None


def test_a_row_tells_what_is_known(db: None):
    mysis = make_mysis(name="Ada", state="running")
    add_account(mysis, stale=True)
    add_turns(mysis, turns=7)
    add_conversation(mysis)
    [row] = fleet.load_rows([mysis.pk], timezone.now())
    assert row.standing.credits == 11_153
    assert row.standing.credits_doubt
    assert row.standing.location == "Sol > Asteroid Belt Alpha"
    # Of an old map no next step depends.
    assert [badge.tool for badge in row.standing.badges] == ["get_status"]
    assert row.said is not None
    assert row.said.text == "get_status(deep=2)"
    assert row.gauge is not None
    assert row.gauge.limit == 120_000
    # Seven of work, one of talk; the sixth of work failed.
    assert (row.hour.turns, row.hour.failures) == (8, 1)
    assert row.hour.cost == Decimal("0.028")


def test_a_row_that_only_grows_older_is_the_same(db: None):
    now = timezone.now()
    ada, brahe = (make_mysis(name=name, state="running") for name in ("Ada", "Brahe"))
    add_account(ada)
    old = GameSnapshot.objects.filter(username__contains=f"-{ada.pk}")
    add_account(brahe)
    GameSnapshot.objects.filter(username__contains=f"-{brahe.pk}").update(
        game_tick=TICK - 500, captured_at=now - timedelta(hours=2)
    )
    turn = make_turn(ada, credits_before=10, credits_after=123_610, outcome="done")
    begun = now - timedelta(minutes=40)
    ada.turns.filter(pk=turn.pk).update(started_at=begun, finished_at=begun)
    numbers = [ada.pk, brahe.pk]
    rows = fleet.load_rows(numbers, now)
    later = fleet.load_rows(numbers, now + timedelta(seconds=11))
    assert load_head(ada, now + timedelta(seconds=11)).tick == TICK + 1
    assert later == rows
    assert rows[0].hour.per_hour == 185_000
    assert [badge.reason for badge in rows[1].standing.badges] == [
        f"old: as of tick {TICK - 500}"
    ]
    assert rows[0].standing.badges == ()
    # Past the limit of its age it is to be believed less.
    assert old.filter(tool_name="get_status").update(game_tick=TICK - 300)
    much_later = now + timedelta(minutes=31)
    assert fleet.load_rows(numbers, much_later)[0].standing.badges != ()


def test_what_was_captured_before_a_logout_is_named_so(db: None):
    ada = make_mysis(name="Ada", state="running")
    add_account(ada)
    # As it is shown again after the next login.
    GameSnapshot.objects.update(stale_reason=BEFORE_LOGOUT)
    [row] = fleet.load_rows([ada.pk], timezone.now())
    assert {badge.reason for badge in row.standing.badges} == {LOGGED_OUT}


def test_a_turn_begun_since_the_clock_was_read_counts(db: None):
    mysis = make_mysis(name="Ada", state="running")
    begun = timezone.now().replace(minute=5, second=0, microsecond=0)
    turn = make_turn(mysis)
    mysis.turns.filter(pk=turn.pk).update(started_at=begun)
    # A moment before, and in the column before.
    hours = charts.load_last_hours([mysis.pk], begun - timedelta(milliseconds=1))
    assert hours[mysis.pk].turns == 1


def test_failures_are_looked_for_by_one_statement(
    db: None, monkeypatch: pytest.MonkeyPatch
):
    ada = make_mysis(name="Ada")
    monkeypatch.setattr(feed, "FAR", 3)
    feed._write_newest.cache_clear()
    for number in range(4):
        events.append_error(ada.pk, f"No fuel {number}.")
        events.append(Kind.TOOL_CALLED, data={"tool": "dock", "ok": number > 1})
        feed.load_newest_feed(event_kinds.BAD)
    assert feed._write_newest.cache_info().misses == 1
    found = feed.load_newest_feed(event_kinds.BAD)
    # Failures among what goes well are looked for so far back only.
    assert [one.kind for one in found] == ["error"] * 4
    monkeypatch.setattr(feed, "FAR", 20)
    found = feed.load_newest_feed(event_kinds.BAD)
    assert [one.kind for one in found].count("tool.called") == 2


def test_old_turns_do_not_count(db: None):
    mysis = make_mysis()
    turn = make_turn(mysis)
    type(turn).objects.update(started_at=timezone.now() - timedelta(hours=2))
    [row] = fleet.load_rows([mysis.pk], timezone.now())
    assert row.hour.turns == 0


def test_what_cannot_be_read_is_no_crash(db: None):
    mysis = make_mysis()
    strange = ["x", {"function": None}, {"function": {"name": None}}, None]
    odd = make_memory(mysis, role="assistant", content="")
    # Past the model, which would not store them.
    Memory.objects.filter(pk=odd.pk).update(tool_calls=strange)
    broken = {"function": {"name": "f", "arguments": '{"a": '}}
    make_memory(mysis, role="assistant", content="", tool_calls=[broken])
    make_memory(mysis, role="tool", content='{"a": ' * 3000)
    make_memory(mysis, role="tool", content="[" * 3000)
    found = conversation.load_newest_lines(mysis)
    assert [len(one.calls) for one in found] == [1, 1, 0, 0]
    assert found[1].calls[0].args == '{"a": '
    assert found[2].clipped
    fragments.draw_log_lines(found, mysis)


@pytest.mark.parametrize(
    ("used", "level", "percent"),
    [(0, "ok", 0), (69_999, "ok", 70), (70_000, "high", 70), (95_000, "full", 95)],
)
def test_gauge_levels(used: int, level: str, percent: int):
    stats = {"tokens_by_category": {"user": used}, "budget": 108_000, "reserve": 8_000}
    gauge = charts.make_gauge(stats)
    assert gauge is not None
    assert (gauge.level, gauge.percent) == (level, percent)


def test_an_overfull_gauge_stays_in_its_frame():
    stats = {"tokens_by_category": {"user": 90, "tool": 90}, "budget": 100}
    gauge = charts.make_gauge(stats)
    assert gauge is not None
    assert gauge.percent == 180
    last = gauge.segments[-1]
    assert last.x + last.width == pytest.approx(100)


def test_a_gauge_tells_what_is_free_and_what_is_kept():
    stats: dict[str, object] = {"tokens_by_category": {"user": 25_000, "tool": 100}}
    stats |= {"budget": 100_000, "reserve": 10_000, "strategy": "tiered"}
    gauge = charts.make_gauge(stats)
    assert gauge is not None
    assert (gauge.free.tokens, gauge.free.share) == (64_900, "65 %")
    assert (gauge.reserve.tokens, gauge.reserve.x) == (10_000, 90.0)
    assert [part.share for part in gauge.segments] == ["25 %", "<1 %"]
    # Where nobody knows the options of then, no line is drawn.
    assert gauge.trigger is None


@pytest.mark.parametrize(
    ("strategy", "options", "tokens"),
    [
        ("tiered", {}, 63_000),
        ("tiered", {"hi": 0.5}, 45_000),
        ("tiered", {"threshold": 20_000}, 20_000),
        ("tiered", {"threshold": 0}, 63_000),
        ("summary", {}, 70_000),
        ("summary", {"threshold": 0}, None),
        ("window", {}, None),
        ("gone", {}, None),
        ("window", {"nonsense": 1}, None),
    ],
)
def test_a_gauge_marks_where_its_strategy_compacts(
    strategy: str, options: dict[str, object], tokens: int | None
):
    stats: dict[str, object] = {"tokens_by_category": {}, "budget": 100_000}
    stats |= {"reserve": 10_000, "strategy": strategy, "options": options}
    gauge = charts.make_gauge(stats)
    assert gauge is not None
    assert (gauge.trigger.tokens if gauge.trigger else None) == tokens
    if gauge.trigger:
        assert gauge.trigger.x == pytest.approx(tokens / 1000 if tokens else 0)


def test_the_feed_leaves_out_looking_but_never_a_failure(db: None):
    mysis = make_mysis(name="Ada")
    calls = [("get_status", True), ("mine", True), ("get_ship", False)]
    items = [
        item(n, Kind.TOOL_CALLED, mysis.pk, tool=tool, ok=ok, arguments={})
        for n, (tool, ok) in enumerate(calls, 1)
    ]
    told = feed.make_news_lines(items)
    assert [line.text for line in told] == ["get_ship(): refused", "mine()"]
    for one in items:
        events.append(Kind.TOOL_CALLED, mysis_id=mysis.pk, data=one["data"])
    assert [line.text for line in feed.load_newest_feed()] == [
        line.text for line in told
    ]


def test_viewers_of_the_same_news_have_their_lines_from_one_statement(
    db: None, django_assert_num_queries: Any
):
    ada, brahe = make_mysis(name="Ada"), make_mysis(name="Brahe")
    called = {"tool": "mine", "ok": True, "arguments": {}}
    items = [item(n, Kind.TOOL_CALLED, ada.pk, **called) for n in range(1, 41)]
    items.append(item(41, Kind.TOOL_CALLED, brahe.pk, **called))
    kept = len(shared._results)
    sealed.read()
    with django_assert_num_queries(1):
        first, second = feed.make_news_lines(items), feed.make_news_lines(items)
    assert first == second
    assert len(shared._results) == kept + 1, "drawn rows are pushed out"
    looks = [item(42, Kind.TOOL_CALLED, ada.pk, tool="get_map", ok=True)]
    assert feed.make_news_lines(looks) == []
    assert len(shared._results) == kept + 1


def test_growing_old_is_no_news(db: None):
    mysis = make_mysis(name="Ada")
    for number, level in enumerate(("ageing", "stale", "invalidated"), 1):
        data = {"tool": "get_map", "reason": "player_died", "confidence": level}
        events.append(Kind.SNAPSHOT_STALE, mysis_id=mysis.pk, data=data)
        items = [item(number, Kind.SNAPSHOT_STALE, mysis.pk, **data)]
        assert bool(feed.make_news_lines(items)) is (level == "invalidated")
    assert feed.load_newest_feed() == [], "staleness is shown under its own chip"
    [line] = feed.load_newest_feed("stale")
    assert (line.stale, line.text) == ("Map", "after player_died")


def test_what_an_action_made_stale_stands_on_its_line(db: None):
    ada, brahe = make_mysis(name="Ada"), make_mysis(name="Brahe")
    stale = [("get_status", "mine"), ("get_ship", "mine"), ("get_map", "jump")]
    items = [
        item(n, Kind.SNAPSHOT_STALE, ada.pk, tool=tool, reason=reason, tick=7)
        for n, (tool, reason) in enumerate(stale, 1)
    ]
    called = {"tool": "mine", "ok": True, "arguments": {}}
    items.append(item(4, Kind.TOOL_CALLED, brahe.pk, **called))
    items.append(item(5, Kind.TOOL_CALLED, ada.pk, **called))
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


def test_a_doubt_that_no_next_step_needs_is_no_badge(db: None):
    mysis = make_mysis(name="Ada", state="running")
    add_account(mysis)
    marks = Stale("travel", TICK - 50, ("ship.fuel",)), Stale("mine", TICK - 5, ("x",))
    row = GameSnapshot.objects.get(tool_name="get_status")
    row.set_joined_mark(join_marks(marks, TICK))
    row.save()
    [shown] = fleet.load_rows([mysis.pk], timezone.now())
    assert shown.standing.badges == ()
    assert fleet.count_flags()["stale"] == 0
    row.set_joined_mark(Stale("refuel", TICK - 50, ("ship.fuel",)))
    row.save()
    [shown] = fleet.load_rows([mysis.pk], timezone.now())
    assert [badge.title for badge in shown.standing.badges] == ["Fuel"]
    assert fleet.count_flags()["stale"] == 1


@pytest.mark.parametrize("flag", ["held", "stuck"])
def test_to_find_who_is_held_no_account_is_judged(
    db: None, flag: str, django_assert_num_queries: Any
):
    ada = make_mysis(name="Ada", hold="budget" if flag == "held" else "")
    brahe = make_mysis(name="Brahe", stuck="It repeats." if flag == "stuck" else "")
    for mysis in (ada, brahe):
        add_account(mysis)
    with django_assert_num_queries(1):
        found = fleet.find_matching_ids(fleet.FleetView(state=flag))
    assert found == [ada.pk if flag == "held" else brahe.pk]


def test_a_fact_that_an_action_changed_is_named(db: None):
    mysis = make_mysis(name="Ada", state="running")
    add_account(mysis)
    GameSnapshot.objects.filter(tool_name="get_status").update(
        stale_reason="mine", stale_tick=TICK - 1, stale_fields=["ship.cargo_used"]
    )
    [row] = fleet.load_rows([mysis.pk], timezone.now())
    assert row.standing.badges == (), "the next answer is about to settle it"
    GameSnapshot.objects.update(stale_tick=TICK - 2)
    [row] = fleet.load_rows([mysis.pk], timezone.now())
    [badge] = row.standing.badges
    assert (badge.title, badge.confidence) == ("Cargo", "partly")
    assert not row.standing.credits_doubt


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
    items = [item(n, Kind.TOOL_CALLED, ada.pk, **one) for n, one in enumerate(happened)]
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


def test_what_an_action_made_stale_is_named_once(db: None):
    ada = make_mysis(name="Ada")
    for tool in ("get_cargo", "get_status", "get_cargo"):
        stale = {"tool": tool, "reason": "sell"}
        events.append(Kind.SNAPSHOT_STALE, mysis_id=ada.pk, data=stale)
    data = {"tool": "sell", "arguments": {}, "ok": True}
    events.append(Kind.TOOL_CALLED, mysis_id=ada.pk, data=data)
    [line] = feed.load_newest_feed()
    assert line.stale == "", "staleness is shown under its own chip"


def test_rows_are_narrowed_to_what_is_the_matter_and_put_in_order(db: None):
    now = timezone.now()
    ada = make_mysis(name="Ada", state="running", last_memory_at=now)
    brahe = make_mysis(name="Brahe", state="running", hold="The money is spent.")
    cassini = make_mysis(name="Cassini", state="running", stuck="It repeats mine().")
    drake = make_mysis(name="Drake", state="errored", last_error="No.")
    add_account(ada, stale=True)
    add_turns(ada, share=0.2)
    add_turns(cassini, share=0.9)

    def ids(**asked: str) -> list[int]:
        rows = fleet.load_view(fleet.FleetView.read(asked), now)
        return [row.id for row in rows.shown]

    assert ids(state="held") == [brahe.pk]
    assert ids(state="stuck") == [cassini.pk]
    assert ids(state="stale") == [ada.pk]
    assert ids(sort="attention") == [drake.pk, brahe.pk, cassini.pk, ada.pk]
    assert ids(sort="context")[:2] == [cassini.pk, ada.pk]


def test_an_order_by_what_changes_is_kept(db: None):
    first, second = make_mysis(name="Ada", cost=2), make_mysis(name="Brahe", cost=1)
    page = FleetPage(fleet.FleetView(sort="cost"))
    page.draw_all(1)
    assert page.ids == [first.pk, second.pk]
    second.cost = Decimal(9)
    second.save()
    swaps = page.draw_changes(Dirty(everything=True, newest=2, wide=2))
    assert page.ids == [second.pk, first.pk]
    assert any('id="fleet-rows"' in swap for swap in swaps)
