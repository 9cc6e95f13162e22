"""The analytics board: figures added up by hand, kept hours, and its doors."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from agents.dashboard.charts import CATEGORIES
from agents.dashboard.shared_results import shared
from agents.dashboard.yields import BUILT_IN_PROMPT, list_lines
from agents.events import Kind
from agents.lab.analytics import Outcome, add_up_outcomes
from agents.lab.analytics_board import AnalyticsView, load_outcomes
from agents.models import Event, ModelCall, Mysis, Prompt, PromptVersion, Turn
from memory.models import AuditEntry, SentContext
from tests.factories import bring_in, make_memory, make_mysis, make_turn
from tests.programs import Program

pytestmark = pytest.mark.django_db
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


@pytest.fixture(autouse=True)
def _read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test reads is not shown to the next."""
    monkeypatch.setattr(shared, "_results", type(shared._results)())


def fly(
    mysis: Mysis, at: datetime, tokens: list[Mapping[str, int]], **values: Any
) -> Turn:
    """A turn of a minute with a call for each context, of these tokens by category."""
    usual = {"outcome": "done", "model": "pilot", "actions": len(tokens)}
    earned = {"credits_before": 100, "credits_after": 200, "cost": Decimal("0.01")}
    turn = make_turn(mysis, **usual | earned | values)
    Turn.objects.filter(pk=turn.pk).update(
        started_at=at, finished_at=at + MINUTE, previous_end=at
    )
    turn.refresh_from_db()
    bring_in(turn)
    for number, each in enumerate(tokens, 1):
        call = ModelCall.objects.create(turn=turn, number=number, model=turn.model)
        SentContext.objects.create(
            mysis=mysis, call=call, strategy="tiered", dialect="openai", view={},
            stats={"tokens_by_category": each}, digest="0" * 64,
        )  # fmt: skip
    return turn


def read(turn: Turn, tool: str, content: str, **values: Any) -> None:
    make_memory(
        turn.mysis, turn=turn, role="tool", tool_name=tool, content=content, **values
    )


def tell(turn: Turn, kind: Kind, after: timedelta, **data: Any) -> None:
    row = Event.objects.create(kind=kind, mysis=turn.mysis, data=data)
    Event.objects.filter(pk=row.pk).update(created_at=turn.started_at + after)


@pytest.fixture
def now() -> datetime:
    return timezone.now().replace(minute=30, second=0, microsecond=0)


@pytest.fixture
def flown(now: datetime) -> dict[str, Turn]:
    """Two versions of a prompt in two turns, one of another Mysis, and an old one."""
    ada, brahe = make_mysis(name="Ada"), make_mysis(name="Brahe")
    fly(brahe, now - 26 * HOUR, [{"user": 5000}])
    prompt = Prompt.objects.create(name="captain")
    versions = [
        PromptVersion.objects.create(prompt=prompt, number=number, text="Fly.")
        for number in (1, 2)
    ]
    first = fly(
        ada,
        now - 25 * MINUTE,
        [{"system": 100, "tool": 900}, {"system": 100, "tool": 1000}, {"system": 100}],
        prompt_version=versions[0],
        failed_actions=1,
    )
    read(first, "get_ship", "a", args={"id": 1})
    read(first, "get_ship", "a", args={"id": 1})
    read(first, "get_ship", "a", args={"id": 2})
    read(first, "get_ship", "a", args={"id": 1}, is_error=True)
    read(first, "mine", "3 ore")
    for handle in ("ctx://1/2", " note://1/base", "state://get_ship", "what", 7):
        read(first, "zoea_recall", "x", args={"handle": handle})
    tell(first, Kind.SNAPSHOT_STALE, MINUTE / 2, fields=["a", "b", "c"])
    tell(first, Kind.SNAPSHOT_STALE, 4 * MINUTE, fields=[])
    tell(first, Kind.CONTEXT_COMPACTED, MINUTE / 2, summary=1)
    second = fly(
        ada,
        now - 20 * MINUTE,
        [{"system": 100, "tool": 300, "notes": 100}],
        prompt_version=versions[1],
        credits_after=150,
    )
    read(second, "get_ship", "a", args={"id": 1})
    tell(second, Kind.SNAPSHOT_STALE, MINUTE / 2, fields=["a"])
    fly(brahe, now - 10 * MINUTE, [{"user": 50}], model="gpt", policy_name="lean")
    return {"first": first, "second": second}


def add_up(now: datetime, by: str, span: timedelta = HOUR) -> dict[str, Any]:
    found = add_up_outcomes(now - span, now)
    assert found.whole
    return {line.label: line.sums for line in list_lines(found.found, by)}


def test_the_figures_are_those_added_up_by_hand(flown: dict[str, Turn], now: datetime):
    lines = add_up(now, "prompt")
    one, two = lines["captain v1"], lines["captain v2"]
    assert isinstance(one, Outcome)
    assert (one.turns, one.calls, one.contexts, one.actions) == (1, 3, 3, 3)
    assert one.calls_per_action == 1
    # 1,000 tokens, then 1,100, then 100: the last was made smaller.
    assert (one.compactions, one.summaries) == (1, 1)
    assert one.shares == Counter({"system": 300, "tool": 1900})
    assert one.tokens_per_call == pytest.approx(2200 / 3)
    assert one.recalls == Counter(ctx=1, note=1, state=1, other=2)
    assert one.recall_rate == pytest.approx(100 * 5 / 3)
    # Of three good reads the second brought what the first had; one failed.
    assert (one.gets, one.repeated) == (3, 1)
    # Three fields, and a whole snapshot after the turn, before the next one began.
    assert one.doubted == 4
    assert one.cost_per_1k_credits == pytest.approx(0.1)
    # Its only context is larger than the last of the turn before.
    assert (two.calls, two.compactions, two.summaries) == (1, 0, 0)
    assert (two.gets, two.repeated, two.doubted) == (1, 1, 1)
    assert two.cost_per_1k_credits == pytest.approx(0.2)
    assert two.recall_rate == 0
    # Smaller than the context before, which is of another Mysis.
    assert lines[BUILT_IN_PROMPT].compactions == 0


@pytest.mark.parametrize(
    ("by", "wanted"),
    [
        ("mysis", {"Ada": 4, "Brahe": 1}),
        ("model", {"pilot": 4, "gpt": 1}),
        ("policy", {"the built-in policy": 4, "lean": 1}),
        ("prompt", {"captain v1": 3, "captain v2": 1, "the built-in prompt": 1}),
    ],
)
def test_each_grouping_has_all_calls_once(
    flown: dict[str, Turn], now: datetime, by: str, wanted: dict[str, int]
):
    assert {name: one.calls for name, one in add_up(now, by).items()} == wanted


def test_a_longer_span_is_the_sum_of_its_hours(flown: dict[str, Turn], now: datetime):
    assert add_up(now, "mysis", timedelta(days=7))["Brahe"].calls == 2
    assert add_up(now, "mysis", timedelta(hours=27))["Brahe"].shares["user"] == 5050


# --- Its doors


def test_the_page_compares_two_versions_of_a_prompt(
    admin: Client,
    flown: dict[str, Turn],
    monkeypatch: pytest.MonkeyPatch,
    now: datetime,
):
    monkeypatch.setattr(timezone, "now", lambda: now)
    text = admin.get("/analytics/?by=prompt&since=1h").content.decode()
    assert text.index("captain v1</th>") < text.index("captain v2</th>")
    assert "+100 %" in text  # the cost of 1,000 credits
    board = load_outcomes(AnalyticsView("prompt", "1h", a="captain v2"), now)
    assert board.comparison is not None
    assert (board.comparison.a.label, board.comparison.b.label) == ("captain v2",) * 2
    by_calls = [line.label for line in board.lines]
    assert by_calls[0] == "captain v1"
    turned = load_outcomes(AnalyticsView("prompt", "1h", "-calls"), now)
    assert turned.lines[-1].label == "captain v1"


def test_a_file_has_the_lines_and_no_formula(
    admin: Client,
    flown: dict[str, Turn],
    monkeypatch: pytest.MonkeyPatch,
    now: datetime,
):
    monkeypatch.setattr(timezone, "now", lambda: now)
    Turn.objects.filter(model="gpt").update(model="=HYPERLINK(1)")
    answer = admin.get("/analytics/?by=model&since=1h&format=csv")
    assert answer["Content-Disposition"].endswith('"analytics-model-1h.csv"')
    admin.get("/analytics/?by=model&since=1h")
    admin.head("/analytics/?by=model&since=1h&format=csv")
    entry = AuditEntry.objects.get(action="analytics.download")
    assert entry.after == {"by": "model", "since": "1h"}
    rows = {row["key"]: row for row in csv.DictReader(io.StringIO(answer.text))}
    assert set(rows) == {"pilot", "'=HYPERLINK(1)"}
    assert rows["pilot"]["calls"] == "4"
    assert rows["pilot"]["recalls_ctx"] == "1"
    assert float(rows["pilot"]["token_shares_tool"]) == pytest.approx(2200 / 2700)


def test_programs_read_the_same_page_by_page(
    flown: dict[str, Turn], monkeypatch: pytest.MonkeyPatch, now: datetime
):
    monkeypatch.setattr(timezone, "now", lambda: now)
    viewer = Program("viewer")
    first = viewer.get("/analytics?by=prompt&limit=1").json()
    (line,) = first["items"]
    assert (line["key"], line["calls"], line["facts_doubted"]) == ("captain v1", 3, 4)
    assert line["recalls"] == {"ctx": 1, "note": 1, "state": 1, "other": 2}
    assert first["total"]["calls"] == 5
    rest = viewer.get(f"/analytics?by=prompt&cursor={first['next']}").json()
    assert [one["key"] for one in rest["items"]] == [
        "captain v2",
        "the built-in prompt",
    ]
    assert set(line["token_shares"]) <= set(CATEGORIES)


@pytest.mark.parametrize(
    "query", ["since=1y", "since=", "by=nothing", "cursor=" + "x" * 500]
)
def test_bad_questions_are_told_what_is_wrong(query: str):
    answer = Program().get(f"/analytics?{query}")
    assert answer.status_code == 422
    assert query.partition("=")[0] in answer.json()["detail"]


def test_nothing_flown_says_what_to_do(admin: Client):
    text = admin.get("/analytics/?by=odd&since=odd&sort=odd&a=%00").content.decode()
    assert "No turn in the last 1h." in text
    assert "start a Mysis" in text
    assert "Analytics" in admin.get("/palette/?q=analy").content.decode()
