"""What the live pages are made of: what they take in, their rows and figures."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from agents import actions, events
from agents.dashboard import charts, conversation, flags, fleet
from agents.dashboard.live import fragments
from agents.dashboard.live.changes import Dirty
from agents.dashboard.live.fleet_page import FleetPage
from agents.dashboard.live.mysis_page import MysisPage
from agents.dashboard.shared_results import RECHECK_SHARED
from agents.events import START, Kind, Position
from agents.models import Mysis
from bench.pages.scenes import TICK, add_account, add_conversation, add_turns
from memory.gamestate.confidence import LOGGED_OUT
from memory.gamestate.invalidation import join_marks
from memory.gamestate.types import Stale
from memory.models import GameSnapshot, Memory
from memory.models.game import BEFORE_LOGOUT
from tests.factories import make_item, make_memory, make_mysis, make_turn


def test_a_gap_is_bridged_by_starting_from_the_newest_page(db: None):
    mysis = make_mysis(name="Ada")
    rows = [make_memory(mysis, content=f"order {n}.") for n in range(260)]
    page = MysisPage(mysis, after=rows[0].pk)
    [*_, log] = page.draw_all(START)
    assert re.match('<div id="log" data-v="[0-9a-f]+" hx-swap-oob="innerHTML">', log)
    assert "order 259." in log
    assert "order 100." not in log
    assert f"before={rows[210].pk}" in log
    assert page.talk.after == rows[-1].pk


def test_a_pending_answer_is_sent_once_when_it_comes(db: None):
    mysis = make_mysis(name="Ada")
    row = make_memory(mysis, role="tool", content="", pending=True, tool_name="mine")
    page = MysisPage(mysis, after=0)
    page.draw_all(START)
    dirty = Dirty()
    dirty.add(make_item(1, Kind.MEMORY_ADDED, mysis.pk))
    assert not any(f"line-{row.pk}" in part for part in page.draw_changes(dirty))
    row.content, row.pending = "got 3 ore", False
    row.save()
    dirty.add(make_item(2, Kind.MEMORY_ADDED, mysis.pk))
    [swap] = [part for part in page.draw_changes(dirty) if f"line-{row.pk}" in part]
    assert 'hx-swap-oob="outerHTML"' in swap
    dirty.add(make_item(3, Kind.MEMORY_ADDED, mysis.pk))
    assert not any(f"line-{row.pk}" in part for part in page.draw_changes(dirty))


def test_a_filtered_page_takes_in_and_lets_go(db: None):
    ada = make_mysis(name="Ada", state="running")
    make_mysis(name="Brahe", state="stopped")
    page = FleetPage(fleet.FleetView(state="running"))
    page.draw_all(START)
    assert page.ids == [ada.pk]
    actions.stop_mysis(mysis=ada, by="system")
    dirty = Dirty()
    dirty.add(make_item(1, Kind.MYSIS_STATE, ada.pk))
    assert any(
        "No Mysis matches." in part for part in page.draw_changes(dirty.hand_out(60))
    )


def test_a_flush_takes_a_bounded_share(db: None):
    dirty = Dirty()
    for number in range(100):
        dirty.add(make_item(number + 1, Kind.TOOL_CALLED, number))
    assert len(dirty.hand_out(60).myses) == 60
    assert dirty
    assert len(dirty.hand_out(60).myses) == 40
    assert not dirty


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
    with django_assert_num_queries(8):
        assert len(fleet.load_view(fleet.FleetView(), now).shown) == 1
    for number in range(4):
        add(f"M{number}")
    with django_assert_num_queries(8):
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


def test_what_was_captured_before_a_logout_is_named_so(db: None):
    ada = make_mysis(name="Ada", state="running")
    add_account(ada)
    # As it is shown again after the next login.
    GameSnapshot.objects.update(stale_reason=BEFORE_LOGOUT)
    [row] = fleet.load_rows([ada.pk], timezone.now())
    assert {badge.reason for badge in row.standing.badges} == {LOGGED_OUT}


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


def test_a_doubt_that_no_next_step_needs_is_no_badge(db: None):
    mysis = make_mysis(name="Ada", state="running")
    add_account(mysis)
    marks = Stale("travel", TICK - 50, ("ship.fuel",)), Stale("mine", TICK - 5, ("x",))
    row = GameSnapshot.objects.get(tool_name="get_status")
    row.set_joined_mark(join_marks(marks, TICK))
    row.save()
    [shown] = fleet.load_rows([mysis.pk], timezone.now())
    assert shown.standing.badges == ()
    assert flags.count_flags()["stale"] == 0
    row.set_joined_mark(Stale("refuel", TICK - 50, ("ship.fuel",)))
    row.save()
    [shown] = fleet.load_rows([mysis.pk], timezone.now())
    assert [badge.title for badge in shown.standing.badges] == ["Fuel"]
    assert flags.count_flags()["stale"] == 1


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
    page.draw_all(Position(0, 1))
    assert page.ids == [first.pk, second.pk]
    second.cost = Decimal(9)
    second.save()
    swaps = page.draw_changes(Dirty(everything=True, newest=2, wide=2))
    assert page.ids == [second.pk, first.pk]
    assert any('id="fleet-rows"' in swap for swap in swaps)
