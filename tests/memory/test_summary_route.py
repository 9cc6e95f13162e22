"""GET /myses/{id}/summary: what it tells, and when a client has it already."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from agents.context_inputs import preview_context
from agents.models import Mysis
from memory.models import (
    AccountClock,
    ActionUnderWay,
    ContextPolicy,
    GameEvent,
    GameSnapshot,
    Lexicon,
)
from memory.snapshots.reads import READ_PER_TOOL
from tests.factories import (
    make_account,
    make_mysis,
    make_sent,
    make_summary,
)
from tests.programs import Program

pytestmark = pytest.mark.django_db
SUMMARY = "/myses/Ada/summary"


@pytest.fixture
def moment(monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
    """A clock that stands still until it is set."""
    clock = [timezone.now()]
    monkeypatch.setattr(timezone, "now", lambda: clock[0])
    return clock


@pytest.fixture
def flying(moment: list[datetime]) -> Mysis:
    mysis = make_mysis(name="Ada", account=make_account(username="Pilot"))
    AccountClock.objects.create(username="Pilot", tick=107, seen_at=moment[0])
    know("get_status", {"player": {"username": "Pilot", "credits": 5000}}, moment[0])
    return mysis


def know(tool: str, content: Any, at: datetime, **values: Any) -> GameSnapshot:
    """A snapshot of tick 105."""
    values = {"game_tick": 105, "captured_at": at - timedelta(seconds=20)} | values
    return GameSnapshot.objects.create(
        username="Pilot", tool_name=tool, content=json.dumps(content), **values
    )


def ask(viewer_program: Program, etag: str = "", **headers: str) -> Any:
    return viewer_program.get(
        SUMMARY, **({"If-None-Match": etag} if etag else {}), **headers
    )


def test_summary_as_json_and_markdown(viewer_program: Program, flying: Mysis) -> None:
    make_summary(flying, text="Mined a lot.")
    make_summary(flying, 12, generation=2, text="Failed.", status="failed")
    body = viewer_program.get("/myses/Ada/summary").json()
    assert body["state"].startswith("## Current Game State")
    assert body["summary"]["text"] == "Mined a lot."
    assert body["summary"]["through_id"] == 9
    for accept in ("text/markdown", "text/markdown;q=1, application/json;q=0.1"):
        text = viewer_program.get("/myses/Ada/summary", Accept=accept)
        assert text["Content-Type"].startswith("text/markdown")
        assert body["state"].split("\n")[0] in text.content.decode()
        assert "Mined a lot." in text.content.decode()
    assert viewer_program.get("/myses/Ada/summary", Accept="*/*")[
        "Content-Type"
    ].startswith("application/json")


def test_an_unchanged_summary_is_304(viewer_program: Program, flying: Mysis) -> None:
    first = ask(viewer_program)
    same = ask(viewer_program, first["ETag"])
    assert (same.status_code, same.content) == (304, b"")
    assert same["ETag"] == first["ETag"]
    strong = first["ETag"].removeprefix("W/")
    assert ask(viewer_program, f'"x", {strong}').status_code == 304
    other = ask(viewer_program, first["ETag"], Accept="text/markdown")
    assert (other.status_code, other["ETag"] == first["ETag"]) == (200, False)


def merged() -> None:
    content = {"player": {"username": "Pilot", "credits": 700}}
    GameSnapshot.objects.update(
        merged=json.dumps(content), field_ticks={"player.credits": 107}
    )


def doubted() -> None:
    GameSnapshot.objects.update(
        stale_reason="buy", stale_tick=106, stale_fields=["player.credits"]
    )


def event() -> None:
    GameEvent.objects.create(
        username="Pilot",
        event_id="1",
        kind="trade",
        tick=107,
        received_at=timezone.now(),
    )


def summarized() -> None:
    make_summary(Mysis.objects.get())


@pytest.mark.parametrize("change", [merged, doubted, event, summarized])
def test_whatever_it_tells_changes_its_etag_at_once(
    viewer_program: Program, flying: Mysis, change: Any
) -> None:
    """In the same tick and second, and more than once."""
    first = ask(viewer_program)
    change()
    second = ask(viewer_program, first["ETag"])
    assert second.status_code == 200
    assert second.content != first.content
    assert ask(viewer_program, second["ETag"]).status_code == 304


def test_a_second_merge_of_one_tick_is_told(
    viewer_program: Program, flying: Mysis
) -> None:
    merged()
    first = ask(viewer_program)
    content = {"player": {"username": "Pilot", "credits": 650}}
    GameSnapshot.objects.update(merged=json.dumps(content))
    second = ask(viewer_program, first["ETag"])
    assert (second.status_code, "650" in second.json()["state"]) == (200, True)


def test_what_tells_nothing_new_leaves_the_etag(
    viewer_program: Program, flying: Mysis
) -> None:
    first = ask(viewer_program)
    GameSnapshot.objects.update(announced="ageing")
    Lexicon.objects.create(username="Pilot", names={"unseen": "Unseen"})
    ActionUnderWay.objects.create(
        username="Pilot", tool="buy", asked_at=timezone.now(), until=timezone.now()
    )
    assert ask(viewer_program, first["ETag"]).status_code == 304


def test_a_fleet_that_rests_has_one_etag_for_long(
    viewer_program: Program, flying: Mysis, moment: list[datetime]
) -> None:
    """Ages alone are news when they have doubled; how far to believe always is."""
    etags = []
    for _ in range(30):
        etags.append(ask(viewer_program)["ETag"])
        moment[0] += timedelta(seconds=100)
    assert 4 < len(set(etags)) < 12
    assert len(set(etags[-3:])) == 1


def test_where_no_tick_was_seen_time_alone_is_no_news(
    viewer_program: Program, flying: Mysis, moment: list[datetime]
) -> None:
    GameSnapshot.objects.all().delete()
    AccountClock.objects.all().delete()
    first = ask(viewer_program)
    moment[0] += timedelta(seconds=30)
    assert ask(viewer_program, first["ETag"]).status_code == 304


def test_it_is_what_the_next_call_would_show(
    viewer_program: Program, flying: Mysis, settings: Settings
) -> None:
    """With what changed since the last call, the events, and the newest calls only."""
    make_sent(flying, preview_context(flying))
    merged()
    event()
    for number in range(READ_PER_TOOL + 4):
        know(
            "view_market",
            {"item": number},
            timezone.now() + timedelta(seconds=number),
            args={"item_id": f"item{number}"},
            args_key=str(number),
        )
    told = ask(viewer_program).json()["state"]
    assert "(was" in told
    assert "trade" in told
    shown = preview_context(flying).assembly.messages
    assert any(told in str(message["content"]) for message in shown)
    settings.ZOEA_STATE_BLOCK_BYTES = 400
    assert len(ask(viewer_program).json()["state"]) <= 400


def test_a_policy_without_a_block_has_no_events_fetched(
    viewer_program: Program, flying: Mysis
) -> None:
    event()
    assert "trade" in ask(viewer_program).json()["state"]
    flying.policy = ContextPolicy.objects.create(
        name="bare", options={"state_block": False}
    )
    flying.save()
    assert "trade" not in ask(viewer_program).json()["state"]


def test_a_304_costs_three_queries(viewer_program: Program, flying: Mysis) -> None:
    """Who asks; what is sealed; and which Mysis, with whether anything was written."""
    etag = ask(viewer_program)["ETag"]
    with CaptureQueriesContext(connection) as queries:
        assert ask(viewer_program, etag).status_code == 304
    assert len(queries) == 3
