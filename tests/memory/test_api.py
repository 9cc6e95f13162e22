"""The REST routes of what is remembered."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from memory.api import log, parameters
from memory.api.policies import AssembleIn
from memory.context import documents
from memory.models import AccountClock, ContextPolicy, GameSnapshot
from tests.factories import (
    make_account,
    make_call,
    make_memory,
    make_mysis,
    make_summary,
)
from tests.programs import Program

pytestmark = pytest.mark.django_db

MEMORY_KEYS = {
    "id", "turn", "role", "origin", "sender", "content", "reasoning", "tool_calls",
    "tool_call_id", "tool_name", "is_error", "tick", "taken_back", "created_at",
}  # fmt: skip
STATE_KEYS = {
    "tool", "args", "confidence", "age_ticks", "age_seconds", "reason", "tick",
    "captured_at", "fields", "causes",
}  # fmt: skip


def found(viewer_program: Program, path: str) -> list[dict[str, Any]]:
    response = viewer_program.get(path)
    assert response.status_code == 200, response.content
    items: list[dict[str, Any]] = response.json()["items"]
    return items


def test_the_log_is_filtered_and_paged(viewer_program: Program) -> None:
    ada = make_mysis(name="Ada")
    make_memory(make_mysis(), content="another's")
    rows = [
        make_memory(ada, content="go"),
        make_memory(ada, role="assistant", content="going", reasoning="why not"),
        make_memory(ada, role="tool", content="gone", tool_name="travel"),
        make_memory(
            ada, content="all of you", origin="broadcast", sender="operator:ann"
        ),
    ]
    items = found(viewer_program, "/myses/Ada/memories")
    assert [item["id"] for item in items] == [row.pk for row in rows]
    assert set(items[0]) == MEMORY_KEYS
    assert (items[0]["sender"], items[0]["tool_name"]) == (None, None)
    assert (items[1]["reasoning"], items[3]["sender"]) == ("why not", "operator:ann")
    ids = [
        item["id"] for item in found(viewer_program, "/myses/Ada/memories?role=user")
    ]
    assert ids == [rows[0].pk, rows[3].pk]
    ids = [
        i["id"] for i in found(viewer_program, "/myses/Ada/memories?origin=broadcast")
    ]
    assert ids == [rows[3].pk]
    after = f"/myses/{ada.pk}/memories?after={rows[1].pk}"
    assert [item["id"] for item in found(viewer_program, after)] == [
        rows[2].pk,
        rows[3].pk,
    ]
    page = viewer_program.get(after + "&limit=1").json()
    assert [item["id"] for item in page["items"]] == [rows[2].pk]
    rest = found(viewer_program, f"{after}&cursor={page['next']}")
    assert [item["id"] for item in rest] == [rows[3].pk]
    for bad in ("role=king", "origin=x", "after=x"):
        assert viewer_program.get(f"/myses/Ada/memories?{bad}").status_code == 422


PAGE_BYTES = 2_000


@pytest.fixture
def _short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (log, parameters):
        monkeypatch.setattr(module, "PAGE_BYTES", PAGE_BYTES)


def walk(by: Program, path: str, cursor: str) -> list[list[dict[str, Any]]]:
    """All pages of a list; each within its bytes, or of one row."""
    pages, place = [], ""
    while place is not None:
        page = by.get(f"{path}&{cursor}={place}" if place else path).json()
        pages.append(page["items"])
        texts = sum(len(f"{i['content']}{i['reasoning']}") for i in page["items"])
        assert texts <= PAGE_BYTES or len(page["items"]) == 1
        place = page["next"]
    return pages


# Bytes of rows, oldest first, and how many of them stand on each page.
LONG = PAGE_BYTES // 2
PAGES = [
    ([LONG] * 5, [2, 2, 1]),
    ([LONG + 1] * 3, [1, 1, 1]),
    ([3 * LONG, 1, 1], [1, 2]),
    ([1, 3 * LONG, 1], [1, 1, 1]),
    ([1, 1, 3 * LONG], [2, 1]),
    ([3 * LONG] * 2, [1, 1]),
    ([1] * 7, [4, 3]),
]


@pytest.mark.usefixtures("_short_pages")
@pytest.mark.parametrize(("sizes", "counts"), PAGES)
def test_a_page_of_the_log_has_so_many_bytes(
    viewer_program: Program, sizes: list[int], counts: list[int]
) -> None:
    ada = make_mysis(name="Ada")
    texts = [f"ore {'x' * (size - 4)}" for size in sizes]
    rows = [make_memory(ada, content=text).pk for text in texts]
    found = walk(viewer_program, "/myses/Ada/memories?limit=4", "cursor")
    assert [len(page) for page in found] == counts
    assert [item["id"] for page in found for item in page] == rows
    for kind, mode in (("messages", "fts"), ("messages", "exact")):
        path = f"/search/{kind}?q=ore&mode={mode}&limit=4"
        hits = [hit for page in walk(viewer_program, path, "before") for hit in page]
        assert [hit["memory_id"] for hit in hits] == rows[::-1]


@pytest.mark.usefixtures("_short_pages")
def test_reasoning_and_calls_count_too(viewer_program: Program) -> None:
    ada = make_mysis(name="Ada")
    calls = [make_call("chat", json.dumps({"text": "x" * LONG}))]
    for _ in range(3):
        make_memory(
            ada, role="assistant", reasoning=f"ore {'x' * LONG}", tool_calls=calls
        )
    assert [
        len(one) for one in walk(viewer_program, "/myses/Ada/memories?", "cursor")
    ] == [1] * 3
    pages = walk(viewer_program, "/search/reasoning?q=ore", "before")
    assert [len(one) for one in pages] == [1] * 3


def test_search_is_newest_first_bounded_and_own(viewer_program: Program) -> None:
    ada, bob = make_mysis(name="Ada"), make_mysis(name="Bob")
    mine = [make_memory(ada, content=f"iron ore {n}").pk for n in range(5)]
    other = make_memory(bob, content="iron ore of Bob").pk
    hits = found(viewer_program, "/search/messages?q=iron+ore&mysis=Ada")
    assert [hit["memory_id"] for hit in hits] == mine[::-1]
    assert {hit["mysis"] for hit in hits} == {ada.pk}
    everywhere = found(viewer_program, "/search/messages?q=iron+ore")
    assert everywhere[0]["memory_id"] == other
    page = viewer_program.get("/search/messages?q=iron&mysis=Ada&limit=2").json()
    assert [hit["memory_id"] for hit in page["items"]] == mine[:2:-1]
    older = found(
        viewer_program, f"/search/messages?q=iron&mysis=Ada&before={page['next']}"
    )
    assert [hit["memory_id"] for hit in older] == mine[2::-1]
    assert found(viewer_program, "/search/messages?q=silver") == []


@pytest.mark.parametrize(
    "query",
    ["", "q=", "q=+", "q=%00", "q=x&limit=0", "q=x&limit=101", "q=x&mode=like",
     "q=x&before=x", "q=" + "x" * 1001],
)  # fmt: skip
@pytest.mark.parametrize("where", ["messages", "reasoning", "broadcasts"])
def test_a_bad_search_is_422(viewer_program: Program, where: str, query: str) -> None:
    refused = viewer_program.get(f"/search/{where}?{query}")
    assert refused.status_code == 422
    assert set(refused.json()) == {"detail", "code"}


@pytest.fixture
def flying() -> Any:
    account = make_account(username="VoidWanderer")
    mysis = make_mysis(name="Ada", account=account)
    now = timezone.now()
    AccountClock.objects.create(username="VoidWanderer", tick=107, seen_at=now)
    status = {"player": {"username": "VoidWanderer", "credits": 5000}}
    GameSnapshot.objects.create(
        username="VoidWanderer",
        tool_name="get_status",
        content=json.dumps(status),
        game_tick=105,
        captured_at=now - timedelta(seconds=20),
        stale_reason="buy",
        stale_tick=106,
        stale_fields=["player.credits"],
    )
    return mysis


def test_state_rows(viewer_program: Program, flying: Any) -> None:
    row = found(viewer_program, "/myses/Ada/state")[0]
    assert set(row) == STATE_KEYS
    assert (row["tool"], row["confidence"], row["reason"]) == (
        "get_status",
        "invalidated",
        "buy",
    )
    assert (row["tick"], row["args"]) == (105, {})
    cause = {"tool": "buy", "tick": 106}
    doubted = {"confidence": "invalidated", "cause": cause}
    assert row["fields"]["player.credits"] == doubted
    assert row["causes"] == [cause | {"fields": ["player.credits"]}]
    assert row["fields"]["player.username"] == "fresh"
    full = found(viewer_program, f"/myses/{flying.pk}/state?full=1")[0]
    assert set(full) == STATE_KEYS | {"content"}
    assert full["content"]["player"]["credits"] == 5000
    assert viewer_program.get("/myses/Ada/state?full=maybe").status_code == 422


def test_the_state_comes_in_pages(viewer_program: Program, flying: Any) -> None:
    status = GameSnapshot.objects.get()
    for number in range(3):
        GameSnapshot.objects.create(
            username="VoidWanderer",
            tool_name="view_market",
            args={"item_id": str(number)},
            args_key=str(number),
            content="{}",
            captured_at=status.captured_at,
        )
    whole = found(viewer_program, "/myses/Ada/state")
    first = viewer_program.get("/myses/Ada/state?limit=3").json()
    rest = viewer_program.get(f"/myses/Ada/state?limit=3&cursor={first['next']}").json()
    assert [row["tool"] for row in first["items"]] == [
        "get_status",
        "view_market",
        "view_market",
    ]
    assert (len(rest["items"]), rest["next"]) == (1, None)
    shown = [row["args"] for row in first["items"] + rest["items"]]
    assert shown == [row["args"] for row in whole]
    assert viewer_program.get("/myses/Ada/state?limit=201").status_code == 422


def test_without_an_account_there_is_no_state(viewer_program: Program) -> None:
    make_mysis(name="Bob")
    assert found(viewer_program, "/myses/Bob/state") == []
    summary = viewer_program.get("/myses/Bob/summary").json()
    assert summary == {
        "state": "Not logged in. Use register or login.",
        "summary": None,
    }


def test_snapshots_of_an_account_outlive_its_logout(
    viewer_program: Program, flying: Any
) -> None:
    GameSnapshot.objects.update(logged_out_at=timezone.now(), stale_reason="")
    assert found(viewer_program, "/myses/Ada/state") == []
    row = found(viewer_program, "/snapshots?username=VoidWanderer")[0]
    assert set(row) == STATE_KEYS
    assert (row["confidence"], row["reason"]) == ("stale", "captured before logout")
    assert found(viewer_program, "/snapshots?username=Nobody%00") == []
    assert viewer_program.get("/snapshots").status_code == 422


def test_summaries_are_listed(viewer_program: Program) -> None:
    ada, bob = make_mysis(name="Ada"), make_mysis(name="Bob")
    for mysis in (ada, bob):
        make_summary(mysis)
    assert len(found(viewer_program, "/summaries")) == 2
    mine = found(viewer_program, "/summaries?mysis=Bob")
    assert [item["mysis"] for item in mine] == [bob.pk]
    assert found(viewer_program, f"/summaries?after={mine[0]['id']}") == []
    assert viewer_program.get("/summaries?mysis=Nobody").status_code == 404


def test_policies_are_checked_when_saved() -> None:
    admin = Program()
    body = {
        "name": "short",
        "strategy": "window",
        "options": {"window": 5},
        "budget": {"tokens": 20_000, "reserve": 1_000},
    }
    made = admin.post("/policies", body)
    assert (made.status_code, made.json()) == (201, body)
    changed = admin.patch("/policies/short", {"budget": {"reserve": 2_000}})
    assert changed.json()["budget"] == {"tokens": 20_000, "reserve": 2_000}
    assert changed.json()["options"] == {"window": 5}
    assert admin.get("/policies").json()["items"] == [changed.json()]
    bad: list[dict[str, Any]] = [
        {"strategy": "nonsense"},
        {"options": {"nonsense": 1}},
        {"options": {"window": "x"}},
        {"options": []},
        {"budget": {"tokens": 0}},
        {"budget": {"tokens": 2**31}},
        {"budget": {"tokens": 100}},
        {"budget": {"reserve": -1}},
        {"budget": 5},
        {"name": ""},
        {"id": 3},
    ]
    for change in bad:
        refused = admin.patch("/policies/short", change)
        assert refused.status_code == 422, change
    assert admin.post("/policies", body).status_code == 422
    assert admin.patch("/policies/none", {}).status_code == 404
    assert ContextPolicy.objects.get().options == {"window": 5}


def test_the_schema_of_a_history_names_every_key_that_the_core_takes() -> None:
    assert set(AssembleIn.model_fields) == documents._REQUEST_KEYS


def test_the_ledger_names_a_message_by_its_id(viewer_program: Program) -> None:
    call = make_call("get_ship", call_id="a")
    document = {
        "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a", "content": "first"},
            {"role": "tool", "tool_call_id": "a", "content": "second"},
        ],
    }
    shown = viewer_program.post("/context/assemble", document)
    assert shown.status_code == 200, shown.content
    by = {line["id"]: line["by"] for line in shown.json()["ledger"]}
    assert by[3] == 4
    assert type(by[3]) is int


def test_a_history_from_outside_is_assembled(viewer_program: Program) -> None:
    document = {
        "messages": [{"role": "user", "content": "hello"}],
        "strategy": "window",
        "state": {
            "username": "VoidWanderer",
            "current_tick": 107,
            "now": "2026-02-05T00:01:10Z",
            "snapshots": [],
        },
    }
    shown = viewer_program.post("/context/assemble", document)
    assert shown.status_code == 200, shown.content
    assert shown.json()["sources"][0] == 1
    bad_ones: list[Any] = [
        {},
        {"messages": 3},
        {"messages": [], "more": 1},
        [],
        None,
        {"messages": [], "strategy": "nonsense"},
        {"messages": [], "state": {"username": 3}},
    ]
    for bad in bad_ones:
        refused = viewer_program.post("/context/assemble", bad)
        assert refused.status_code == 422, bad
    large = {"messages": [{"role": "user", "content": "x" * 3_000_000}]}
    refused = viewer_program.post("/context/assemble", large)
    assert (refused.status_code, refused.json()["code"]) == (413, "too_large")
    steward = Program("operator")
    assert steward.post("/context/assemble", large).status_code == 200
