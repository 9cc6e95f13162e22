"""The REST routes of the fleet: shapes, states, and what follows from a write."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from agents import events
from agents.context import preview
from agents.events import Kind
from agents.models import Broadcast, ModelCall, Mysis, Prompt, Provider
from agents.stream import WishError, wish_of
from memory.models import ContextPolicy
from memory.sent import record
from tests.factories import make_account, make_memory, make_mysis, make_turn
from tests.programs import Program

pytestmark = pytest.mark.django_db

MYSIS_KEYS = {
    "id", "name", "state", "model", "policy", "prompt", "account", "activity",
    "tick", "last_error", "nudges", "created_at",
}  # fmt: skip
TURN_KEYS = {
    "id", "number", "trigger", "outcome", "iterations", "tokens", "cost",
    "latency_ms", "error", "started_at", "finished_at",
}  # fmt: skip
HIT_KEYS = {
    "memory_id", "mysis", "role", "origin", "content", "reasoning", "snippet",
    "timestamp",
}  # fmt: skip


@pytest.fixture
def admin() -> Program:
    return Program()


def test_a_mysis_is_made_read_changed_and_deleted(admin: Program) -> None:
    ContextPolicy.objects.create(name="short", strategy="window")
    admin.post("/prompts", {"name": "miner", "text": "Mine."})
    made = admin.post(
        "/myses",
        {
            "name": "Ada Lovelace",
            "model": "pilot",
            "policy": "short",
            "prompt": "miner",
            "pins": ["never attack miners"],
            "max_iterations": 1000,
            "messaging": True,
        },
    )
    assert made.status_code == 201
    item = made.json()
    assert set(item) == MYSIS_KEYS
    assert (item["state"], item["policy"], item["prompt"]) == ("idle", "short", "miner")
    assert (item["account"], item["tick"], item["last_error"]) == (None, None, None)
    row = Mysis.objects.get()
    assert (row.max_iterations, row.pins.get().text) == (1000, "never attack miners")
    assert row.messaging is True
    read = admin.get("/myses/Ada%20Lovelace").json()
    written = (read["pins"], read["max_iterations"], read["messaging"])
    assert written == (["never attack miners"], 1000, True)
    for reference in (str(row.pk), "Ada%20Lovelace"):
        assert admin.get(f"/myses/{reference}").json().items() >= item.items()
    changed = admin.patch(
        f"/myses/{row.pk}", {"name": "Ada", "policy": None, "pins": []}
    )
    assert changed.status_code == 200
    assert (changed.json()["name"], changed.json()["policy"]) == ("Ada", None)
    assert changed.json()["prompt"] == "miner"
    assert not row.pins.exists()
    assert admin.delete("/myses/Ada").status_code == 204
    assert admin.get(f"/myses/{row.pk}").status_code == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "", "model": "pilot"}, "name"),
        ({"name": "17", "model": "pilot"}, "name"),
        ({"name": "a/b", "model": "pilot"}, "name"),
        ({"name": "taken", "model": "pilot"}, "name"),
        ({"name": "TAKEN", "model": "pilot"}, ""),
        ({"name": "x" * 101, "model": "pilot"}, "name"),
        ({"name": 5, "model": "pilot"}, "name"),
        ({"name": None, "model": "pilot"}, "name"),
        ({"name": "n"}, "model"),
        ({"name": "n", "model": ""}, "model"),
        ({"name": "n", "model": "nowhere:gpt"}, "model"),
        ({"name": "n", "model": "pilot", "max_iterations": 0}, "max_iterations"),
        ({"name": "n", "model": "pilot", "max_iterations": 1001}, "max_iterations"),
        ({"name": "n", "model": "pilot", "max_iterations": True}, "max_iterations"),
        ({"name": "n", "model": "pilot", "max_iterations": "5"}, "max_iterations"),
        ({"name": "n", "model": "pilot", "max_iterations": 10**400}, "max_iterations"),
        ({"name": "n", "model": "pilot", "max_iterations": None}, "max_iterations"),
        ({"name": "n", "model": "pilot", "messaging": None}, "messaging"),
        ({"name": "n", "model": "pilot", "policy": "none"}, "policy"),
        ({"name": "n", "model": "pilot", "prompt": "none"}, "prompt"),
        ({"name": "n", "model": "pilot", "pins": "x"}, "pins"),
        ({"name": "n", "model": "pilot", "pins": [""]}, "pins"),
        ({"name": "n", "model": "pilot", "colour": "red"}, "colour"),
    ],
)
def test_a_bad_mysis_is_422_and_names_the_field(
    admin: Program, body: dict[str, Any], field: str
) -> None:
    make_mysis(name="taken")
    refused = admin.post("/myses", body)
    assert refused.status_code == 422
    assert refused.json()["detail"].startswith(field)
    assert Mysis.objects.count() == 1


def test_start_stop_and_message_follow_the_states(admin: Program) -> None:
    mysis = make_mysis(name="Ada")
    assert admin.post("/myses/Ada/start").json()["state"] == "running"
    again = admin.post("/myses/Ada/start")
    assert again.status_code == 409
    assert "running" in again.json()["detail"]
    for _ in range(2):
        stopped = admin.post("/myses/Ada/stop")
        assert (stopped.status_code, stopped.json()["state"]) == (200, "stopped")
    refused = admin.post("/myses/Ada/message", {"text": "hello"})
    assert refused.status_code == 409
    assert "stopped" in refused.json()["detail"]
    Mysis.objects.update(state="idle")
    sent = admin.post("/myses/Ada/message", {"text": "hello"})
    assert sent.status_code == 200
    assert sent.json()["sender"] == "token:test admin"
    assert (sent.json()["origin"], sent.json()["content"]) == ("human", "hello")
    mysis.refresh_from_db()
    assert mysis.state == "running"


def test_turns(admin: Program) -> None:
    mysis = make_mysis(name="Ada")
    turns = [make_turn(mysis) for _ in range(3)]
    done = turns[0]
    done.outcome = "done"
    done.input_tokens, done.output_tokens, done.cached_tokens = 100, 20, 80
    done.cost = Decimal("0.001234")
    done.save()
    make_turn(make_mysis())
    page = admin.get("/myses/Ada/turns?limit=2").json()
    assert [item["id"] for item in page["items"]] == [turns[0].pk, turns[1].pk]
    assert set(page["items"][0]) == TURN_KEYS
    rest = admin.get(f"/myses/Ada/turns?limit=2&cursor={page['next']}").json()
    assert [item["id"] for item in rest["items"]] == [turns[2].pk]
    assert rest["next"] is None
    item = admin.get(f"/turns/{done.pk}").json()
    assert item["tokens"] == {"input": 100, "output": 20, "cached": 80}
    assert item["cost"] == pytest.approx(0.001234)
    assert (item["outcome"], item["error"]) == ("done", None)
    assert page["items"][1]["outcome"] is None
    for bad in ("0", "x", "9" * 30, "-1"):
        assert admin.get(f"/turns/{bad}").status_code == 404


def test_a_turn_tells_its_calls_and_summaries_shift_no_number(admin: Program) -> None:
    """Calls that drive the turn count from 1, whatever stands between them."""
    mysis = make_mysis(name="Ada")
    make_memory(mysis, content="go to Sol")
    turn = make_turn(mysis)
    for kind, number in (("summary", 1), ("turn", 1), ("summary", 2), ("turn", 2)):
        call = ModelCall.objects.create(turn=turn, kind=kind, number=number, model="m")
        if kind == "turn":
            record(call_id=call.pk, prepared=preview(mysis))
    told = admin.get(f"/turns/{turn.pk}").json()["calls"]
    assert [(call["kind"], call["number"]) for call in told] == [
        ("summary", 1), ("turn", 1), ("summary", 2), ("turn", 2),
    ]  # fmt: skip
    assert told[0]["tokens"] == {"input": 0, "output": 0, "cached": 0}
    for number, status in ((1, 200), (2, 200), (3, 404)):
        shown = admin.get(f"/turns/{turn.pk}/calls/{number}/context")
        assert shown.status_code == status


def test_broadcasts_reach_idle_and_running_ones_and_are_found_once(
    admin: Program, django_capture_on_commit_callbacks: Any
) -> None:
    ada, bob = make_mysis(name="Ada"), make_mysis(name="Bob", state="running")
    make_mysis(name="Cat", state="stopped")
    with django_capture_on_commit_callbacks(execute=True):
        sent = admin.post("/broadcasts", {"text": "the <b>meeting</b> is at Sol"})
    assert sent.status_code == 201
    item = sent.json()
    assert (item["recipients"], item["mysis"]) == (2, None)
    assert item["sender"] == "token:test admin"
    assert admin.get("/broadcasts").json()["items"] == [item]
    for mode in ("fts", "exact"):
        found = admin.get(f"/search/broadcasts?q=meeting&mode={mode}").json()["items"]
        assert len(found) == 1
        assert set(found[0]) == HIT_KEYS
        assert "&lt;b&gt;<mark>meeting</mark>" in found[0]["snippet"]
        assert found[0]["memory_id"] == ada.memories.get().pk
    for name, count in (("Ada", 1), ("Bob", 1), ("Cat", 0)):
        found = admin.get(f"/search/broadcasts?q=meeting&mysis={name}").json()["items"]
        assert len(found) == count
    assert bob.memories.count() == 1


def test_the_search_in_broadcasts_goes_back_by_memory_id(admin: Program) -> None:
    make_mysis()
    for n in range(5):
        admin.post("/broadcasts", {"text": f"gather {n}"})
    seen: list[str] = []
    before = ""
    while True:
        page = admin.get(f"/search/broadcasts?q=gather&limit=2{before}").json()
        seen += [hit["content"] for hit in page["items"]]
        if page["next"] is None:
            break
        before = f"&before={page['next']}"
    assert seen == [f"gather {n}" for n in (4, 3, 2, 1, 0)]


def test_a_provider_s_key_is_written_and_never_read(admin: Program) -> None:
    body = {
        "name": "zen",
        "kind": "openai",
        "base_url": "http://127.0.0.1:1/v1",
        "default_model": "small",
        "window": 32_000,
        "api_key": "sk-secret",
    }
    made = admin.post("/providers", body)
    assert made.status_code == 201
    shown = {k: v for k, v in body.items() if k != "api_key"} | {"has_key": True}
    assert made.json() == shown
    assert Provider.objects.get().api_key == "sk-secret"
    assert "sk-secret" not in Provider.objects.get().sealed_key
    changed = admin.patch("/providers/zen", {"window": None})
    assert changed.json() == shown | {"window": None}
    assert Provider.objects.get().api_key == "sk-secret"
    assert admin.patch("/providers/zen", {"api_key": ""}).json()["has_key"] is False
    listed = admin.get("/providers")
    assert b"secret" not in listed.content
    assert len(listed.json()["items"]) == 1


@pytest.mark.parametrize(
    "body",
    [
        {"name": "zen"},
        {"name": "zen", "kind": "grok"},
        {"name": "7", "kind": "openai"},
        {"name": "zen", "kind": "openai", "base_url": "not a url"},
        {"name": "zen", "kind": "openai", "base_url": "file:///etc/passwd"},
        {"name": "zen", "kind": "openai", "window": 0},
        {"name": "zen", "kind": "openai", "window": 2**31},
        {"name": "zen", "kind": "openai", "has_key": True},
        {"name": "taken", "kind": "openai"},
    ],
)
def test_a_bad_provider_is_422(admin: Program, body: dict[str, Any]) -> None:
    Provider.objects.create(name="taken", kind="pilot")
    refused = admin.post("/providers", body)
    assert refused.status_code == 422
    assert Provider.objects.count() == 1
    assert admin.patch("/providers/nobody", {"window": 5}).status_code == 404


def test_prompts_have_versions_and_go_back(admin: Program) -> None:
    made = admin.post("/prompts", {"name": "miner", "text": "Mine.", "note": "first"})
    assert made.status_code == 201
    number = made.json()["id"]
    assert admin.post("/prompts", {"name": "miner", "text": "x"}).status_code == 422
    second = admin.post(f"/prompts/{number}/versions", {"text": "Mine more."})
    assert (second.status_code, second.json()["number"]) == (201, 2)
    back = admin.post("/prompts/miner/rollback", {"number": 1})
    assert (back.status_code, back.json()["number"]) == (200, 3)
    assert admin.get("/prompts/miner").json()["text"] == "Mine."
    versions = admin.get("/prompts/miner/versions").json()["items"]
    assert [v["number"] for v in versions] == [1, 2, 3]
    assert {v["author"] for v in versions} == {"token:test admin"}
    assert admin.post("/prompts/miner/rollback", {"number": 9}).status_code == 404
    assert admin.post("/prompts/nobody/rollback", {"number": 1}).status_code == 404
    assert Prompt.objects.count() == 1


def test_accounts_are_listed_without_secrets(admin: Program) -> None:
    mysis = make_mysis(name="Ada")
    make_account(username="VoidWanderer", password="hunter2", assigned_to=mysis)
    answer = admin.get("/accounts")
    assert b"hunter2" not in answer.content
    item = answer.json()["items"][0]
    assert (item["username"], item["assigned_to"]) == ("VoidWanderer", "Ada")
    assert not any("pass" in key or "seal" in key for key in item)


@pytest.mark.django_db(transaction=True)
def test_events_are_the_items_of_the_stream() -> None:
    viewer = Program("viewer")
    ada = make_mysis(name="Ada")
    for n in range(5):
        events.append(Kind.TOOL_CALLED, mysis_id=ada.pk, data={"n": n})
    events.append(Kind.ERROR)
    page = viewer.get("/events?limit=4").json()
    assert set(page["items"][0]) == {"id", "kind", "at", "mysis", "data"}
    rest = viewer.get(f"/events?limit=4&cursor={page['next']}").json()
    assert rest["next"] is None
    items = page["items"] + rest["items"]
    assert [item["kind"] for item in items] == ["tool.called"] * 5 + ["error"]
    assert viewer.get(f"/events?after={items[-2]['id']}").json()["items"] == items[-1:]
    assert len(viewer.get("/events?kind=error,turn.started").json()["items"]) == 1
    assert len(viewer.get("/events?mysis=Ada").json()["items"]) == 5
    assert viewer.get("/events?kind=nonsense").status_code == 422
    assert viewer.get("/events?mysis=Nobody").status_code == 404
    for bad in ("x", "-1", "9" * 30):
        assert viewer.get(f"/events?after={bad}").status_code == 422


@pytest.mark.django_db(transaction=True)
def test_a_deleted_mysis_s_events_are_had_by_its_number(admin: Program) -> None:
    ada = make_mysis(name="Ada")
    number = ada.pk
    events.append(Kind.ERROR, mysis_id=number)
    assert admin.delete("/myses/Ada").status_code == 204
    found = admin.get(f"/events?mysis={number}").json()["items"]
    assert [item["kind"] for item in found] == ["error", "mysis.state"]
    wish = wish_of(f"mysis={number}")
    assert wish.mysis_id == number
    for never in ("Ada", str(number + 10**9), ""):
        assert admin.get(f"/events?mysis={never}").status_code == 404, never
        with pytest.raises(WishError):
            wish_of(f"mysis={never}")


def test_the_fleet_in_numbers(admin: Program) -> None:
    empty = admin.get("/fleet").json()
    assert empty["counts"] == {"idle": 0, "running": 0, "stopped": 0, "errored": 0}
    assert (empty["tick"], empty["cost"], empty["redundant_get_rate"]) == (None, 0, 0)
    mysis = make_mysis(account=make_account())
    make_mysis(state="errored")
    turn = make_turn(mysis, input_tokens=10, output_tokens=2, cost=Decimal("0.5"))
    for tool, content in (
        ("get_ship", "a"),
        ("get_ship", "a"),
        ("get_ship", "b"),
        ("get_status", "b"),
        ("mine", "b"),
        ("mine", "b"),
    ):
        make_memory(mysis, role="tool", turn=turn, tool_name=tool, content=content)
    fleet = admin.get("/fleet").json()
    assert fleet["counts"] == {"idle": 1, "running": 0, "stopped": 0, "errored": 1}
    assert fleet["tokens"] == {"input": 10, "output": 2, "cached": 0}
    assert fleet["cost"] == 0.5
    assert fleet["redundant_gets"] == {"calls": 4, "redundant": 1, "rate": 0.25}
    assert set(fleet["staleness"]) == {
        "fresh", "merged", "ageing", "stale", "invalidated",
    }  # fmt: skip


def test_the_preview_shows_the_next_call_and_writes_nothing(admin: Program) -> None:
    mysis = make_mysis(name="Ada")
    for n in range(30):
        make_memory(mysis, content=f"order {n}")
    before = [Mysis.objects.values().get(), mysis.memories.count()]
    shown = admin.get("/myses/Ada/context").json()
    assert shown["messages"][0]["role"] == "system"
    assert len(shown["messages"]) == len(shown["sources"])
    assert {"status", "ledger", "stats", "synthetic", "warnings", "hash"} <= set(shown)
    assert admin.get("/myses/Ada/context").json()["hash"] == shown["hash"]
    narrow = admin.get('/myses/Ada/context?strategy=window&options={"window":3}').json()
    assert len(narrow["messages"]) < len(shown["messages"])
    small = admin.get("/myses/Ada/context?budget=9000").json()
    assert small["stats"]["budget"] == 9000
    assert [Mysis.objects.values().get(), mysis.memories.count()] == before
    assert not Broadcast.objects.exists()
    assert not ModelCall.objects.exists()


@pytest.mark.parametrize(
    "query",
    [
        "strategy=nonsense",
        "options={",
        "options=[]",
        'options={"nonsense":1}',
        'options={"window":"x"}',
        "options=" + "[" * 10_000,
        "budget=0",
        "budget=x",
        "budget=-5",
        "budget=" + "9" * 30,
        "budget=" + "9" * 5000,
        "budget=true",
        'budget={"tokens":10,"reserve":10}',
        'budget={"tokens":10,"more":1}',
        "budget={}",
    ],
)
def test_a_bad_variant_is_422(admin: Program, query: str) -> None:
    make_memory(make_mysis(name="Ada"))
    refused = admin.get(f"/myses/Ada/context?{query}")
    assert refused.status_code == 422, refused.content
    assert set(refused.json()) == {"detail", "code"}


def test_a_past_call_is_shown_as_it_was_sent(admin: Program) -> None:
    mysis = make_mysis(name="Ada")
    make_memory(mysis, content="go to Sol")
    turn = make_turn(mysis)
    call = ModelCall.objects.create(turn=turn, number=1, model="pilot")
    prepared = preview(mysis)
    record(call_id=call.pk, prepared=prepared)
    make_memory(mysis, content="later")
    shown = admin.get(f"/turns/{turn.pk}/calls/1/context").json()
    assert {"messages", "sources", "ledger", "stats", "hash", "sent"} <= set(shown)
    assert shown["messages"] == prepared.assembly.messages
    assert (shown["hash"], shown["intact"]) == (prepared.digest, True)


def test_there_is_no_context_of_a_call_that_was_never_made(admin: Program) -> None:
    turn = make_turn(make_mysis())
    ModelCall.objects.create(turn=turn, number=1, model="pilot")
    for path in (f"{turn.pk}/calls/1", f"{turn.pk}/calls/x", "x/calls/1",
                 f"{turn.pk}/calls/{10**15}", f"{10**30}/calls/1"):  # fmt: skip
        assert admin.get(f"/turns/{path}/context").status_code == 404
