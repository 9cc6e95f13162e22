"""What of the fleet page is sent and drawn once more, and what is not."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from agents import actions, events
from agents.dashboard import charts, feed, fleet
from agents.dashboard.accounts import AccountStatus
from agents.dashboard.charts import MysisHour
from agents.dashboard.live import fleet_page, fragments
from agents.dashboard.live.changes import Dirty
from agents.dashboard.live.fleet_page import FleetPage
from agents.events import START, Item, Kind, Position
from bench.pages.scenes import add_account, add_conversation, add_turns
from tests.factories import make_memory, make_mysis


def loaded(client: Client) -> dict[str, str]:
    """Versions of the list and of the feed of a page that was just loaded."""
    page = client.get("/").content.decode()
    parts = {"rows": "fleet-rows", "told": "feed"}
    return {
        name: re.search(rf'id="{part}" data-v="([0-9a-f]+)"', page)[1]  # type: ignore[index]
        for name, part in parts.items()
    }


def frame_of(has: dict[str, str], view: fleet.FleetView | None = None) -> str:
    """What the socket of a page that shows so much sends first."""
    return "".join(FleetPage(view or fleet.FleetView(), **has).draw_all(START))


def busy_row() -> fleet.FleetRow:
    """A row of a Mysis that flies, spoke and has a context."""
    mysis = make_mysis(name="Ada", state="running")
    add_account(mysis, stale=True)
    add_conversation(mysis)
    add_turns(mysis)
    [row] = fleet.load_view(fleet.FleetView(), timezone.now()).shown
    return row


def others(row: fleet.FleetRow) -> list[fleet.FleetRow]:
    """Rows that differ from one in all that a cell can show."""
    return [
        replace(row, name="Brahe", key="Brahe"),
        replace(row, state="errored", last_error="Oh no"),
        replace(row, activity="thinking", hold="the budget is spent", stuck="no ore"),
        replace(row, account="", standing=AccountStatus(credits=5)),
        replace(row, said=None, gauge=None, hour=replace(row.hour, turns=1, bars=())),
    ]


def test_a_page_that_was_just_loaded_is_not_sent_again(admin_client: Client):
    ada, brahe = (make_mysis(name=name, state="running") for name in ("Ada", "Brahe"))
    has = loaded(admin_client)
    actions.stop_mysis(mysis=ada, by="system")
    make_memory(ada, role="assistant", content="Mining.")
    page = FleetPage(fleet.FleetView(), **has)
    frame = "".join(page.draw_all(START))
    assert "Mining." in frame
    assert f'id="m{ada.pk}-said"' in frame
    assert f'id="m{brahe.pk}-' not in frame
    assert 'id="fleet-rows"' not in frame
    assert page.ids == [ada.pk, brahe.pk]
    dirty = Dirty()
    at = events.format_moment(timezone.now())
    dirty.add(Item(id=1, kind=Kind.MEMORY_ADDED, at=at, mysis=brahe.pk, data={}))
    assert not any(f'id="m{brahe.pk}-who"' in part for part in page.draw_changes(dirty))


def test_a_page_that_lists_others_is_sent_whole(admin_client: Client):
    make_mysis(name="Ada", state="running")
    has = loaded(admin_client)
    assert 'id="fleet-rows"' in frame_of(has, fleet.FleetView(sort="cost"))
    make_mysis(name="Brahe", state="running")
    assert any(
        'id="fleet-rows"' in part
        for part in FleetPage(fleet.FleetView(), **has).draw_all(START)
    )
    assert 'id="fleet-rows"' in frame_of({"rows": "0" * 16})


def test_of_a_feed_that_is_shown_only_what_happened_since_is_sent(
    admin_client: Client,
):
    events.append(Kind.ERROR, data={"detail": "Before."})
    has = loaded(admin_client)
    assert "feed" not in frame_of(has)
    events.append(Kind.ERROR, data={"detail": "Oh no."})
    events.append(Kind.ERROR, data={"detail": "Once more."})
    frame = frame_of(has)
    assert '<ol hx-swap-oob="afterbegin:#feed">' in frame
    assert frame.index("Once more.") < frame.index("Oh no.")
    assert "Before." not in frame
    # A page that this process did not make, or whose lines are all older.
    assert 'id="feed"' in frame_of({**has, "told": "0" * 16})
    for _ in range(feed.SHOWN):
        events.append(Kind.ERROR, data={"detail": "Again."})
    assert 'id="feed"' in frame_of(has)


def test_a_cell_is_drawn_anew_when_what_it_shows_changes(db: None):
    row = busy_row()
    fragments.draw_cells(row)
    for other in others(row):
        cells = fragments.draw_cells(other)
        for column, drawn in zip(fleet.COLUMNS, cells, strict=True):
            assert drawn.html == fragments.draw_template(
                f"fleet/cell_{column.name}", row=other
            )


def test_gauges_and_sparklines_are_drawn_with_their_words():
    gauge = charts.make_gauge(
        {"budget": 100, "tokens_by_category": {"system": 5, "user": 20}}
    )
    hour = MysisHour(3, 0, Decimal(0), 1, charts.make_bars((0, 3), (0, 1)))
    drawn = fragments.draw_template("shared/gauge", gauge=gauge)
    assert 'aria-label="Context 25 % full: system 5, user 20, free 75, ' in drawn
    assert 'class="seg seg-user" x="5.0" y="0" width="20.0" height="6"' in drawn
    assert "<title>user: 20 tokens</title>" in drawn
    spark = fragments.draw_template("shared/spark", hour=hour)
    assert '<rect class="bar" x="0" y="19.0" width="4" height="1.0"/>' in spark
    assert '<rect class="bar-bad" x="6" y="0.0" width="4" height="20.0"/>' in spark


def test_a_further_viewer_of_the_same_news_asks_nothing(
    db: None, django_assert_num_queries: Any, monkeypatch: pytest.MonkeyPatch
):
    # What is shared for ten seconds is not made anew between the two.
    day = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: day)
    ada = make_mysis(name="Ada", state="running")
    first, second = (FleetPage(fleet.FleetView()) for _ in range(2))
    for position, page in enumerate((first, second)):
        # They opened one after the other: the stream had told the second of more.
        page.draw_all(Position(0, position))
    told = {"tool": "mine", "ok": True, "arguments": {}}
    at = events.format_moment(timezone.now())
    item = Item(id=1, kind=Kind.TOOL_CALLED, at=at, mysis=ada.pk, data=told)
    dirty = Dirty()
    dirty.add(item)
    seen = first.draw_changes(dirty)
    assert any("mine()" in swap for swap in seen)
    with django_assert_num_queries(0):
        assert second.draw_changes(dirty) == seen


def test_a_failed_turn_shows_without_a_change_of_state_and_goes_as_it_is_mended(
    db: None,
):
    mysis = make_mysis(name="Ada", state="running")
    shown, begun = [], timezone.now()
    for number, error in enumerate(("", "No credit left.", "")):
        mysis.last_error = error
        mysis.save()
        now = begun + timedelta(seconds=number * fleet_page.TURNS_TOGETHER)
        head = "".join(one.html for one in fleet_page.share_head(now, 1, number, 0))
        shown.append("No credit left." in head)
    assert shown == [False, True, False]
