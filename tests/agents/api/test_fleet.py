"""The REST routes to what all Myses share: providers, prompts, accounts, events."""

from __future__ import annotations

from decimal import Decimal

import pytest

from agents import events
from agents.consumers.event_stream import StreamRequestError, read_stream_request
from agents.events import Kind
from agents.models import Prompt, Provider
from tests.factories import make_account, make_memory, make_mysis, make_turn
from tests.programs import Program

pytestmark = pytest.mark.django_db


def test_a_provider_s_key_is_written_and_never_read(admin_program: Program) -> None:
    body = {
        "name": "zen",
        "kind": "openai",
        "base_url": "http://127.0.0.1:1/v1",
        "default_model": "small",
        "window": 32_000,
        "api_key": "sk-secret",
    }
    made = admin_program.post("/providers", body)
    assert made.status_code == 201
    shown = {k: v for k, v in body.items() if k != "api_key"} | {"has_key": True}
    assert made.json() == shown
    assert Provider.objects.get().api_key == "sk-secret"
    assert "sk-secret" not in Provider.objects.get().sealed_key
    changed = admin_program.patch("/providers/zen", {"window": None})
    assert changed.json() == shown | {"window": None}
    assert Provider.objects.get().api_key == "sk-secret"
    elsewhere = {"base_url": "http://127.0.0.1:2/v1"}
    for moved in (elsewhere, {"kind": "anthropic"}):
        refused = admin_program.patch("/providers/zen", moved)
        assert refused.status_code == 422
        assert refused.json()["detail"].startswith("api_key: the stored key")
    assert Provider.objects.get().base_url == body["base_url"]
    other = {"base_url": "http://127.0.0.1:1/v2"}
    assert admin_program.patch("/providers/zen", other).json()["has_key"] is True
    given = admin_program.patch("/providers/zen", elsewhere | {"api_key": "sk-secret"})
    assert given.json()["has_key"] is True
    assert (
        admin_program.patch("/providers/zen", {"api_key": ""}).json()["has_key"]
        is False
    )
    listed = admin_program.get("/providers")
    assert b"secret" not in listed.content
    assert len(listed.json()["items"]) == 1


def test_prompts_have_versions_and_go_back(admin_program: Program) -> None:
    made = admin_program.post(
        "/prompts", {"name": "miner", "text": "Mine.", "note": "first"}
    )
    assert made.status_code == 201
    number = made.json()["id"]
    assert (
        admin_program.post("/prompts", {"name": "miner", "text": "x"}).status_code
        == 422
    )
    second = admin_program.post(f"/prompts/{number}/versions", {"text": "Mine more."})
    assert (second.status_code, second.json()["number"]) == (201, 2)
    back = admin_program.post("/prompts/miner/rollback", {"number": 1})
    assert (back.status_code, back.json()["number"]) == (200, 3)
    assert admin_program.get("/prompts/miner").json()["text"] == "Mine."
    versions = admin_program.get("/prompts/miner/versions").json()["items"]
    assert [v["number"] for v in versions] == [1, 2, 3]
    assert {v["author"] for v in versions} == {"token:test admin"}
    assert (
        admin_program.post("/prompts/miner/rollback", {"number": 9}).status_code == 404
    )
    assert (
        admin_program.post("/prompts/nobody/rollback", {"number": 1}).status_code == 404
    )
    assert Prompt.objects.count() == 1


def test_accounts_are_listed_without_secrets(admin_program: Program) -> None:
    mysis = make_mysis(name="Ada")
    make_account(username="VoidWanderer", password="hunter2", assigned_to=mysis)
    answer = admin_program.get("/accounts")
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
def test_a_deleted_mysis_s_events_are_had_by_its_number(admin_program: Program) -> None:
    ada = make_mysis(name="Ada")
    number = ada.pk
    events.append(Kind.ERROR, mysis_id=number)
    assert admin_program.delete("/myses/Ada").status_code == 204
    found = admin_program.get(f"/events?mysis={number}").json()["items"]
    assert [item["kind"] for item in found] == ["error", "mysis.state"]
    wish = read_stream_request(f"mysis={number}")
    assert wish.mysis_id == number
    for never in ("Ada", str(number + 10**9), ""):
        assert admin_program.get(f"/events?mysis={never}").status_code == 404, never
        with pytest.raises(StreamRequestError):
            read_stream_request(f"mysis={never}")


def test_the_fleet_in_numbers(admin_program: Program) -> None:
    empty = admin_program.get("/fleet").json()
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
    fleet = admin_program.get("/fleet").json()
    assert fleet["counts"] == {"idle": 1, "running": 0, "stopped": 0, "errored": 1}
    assert fleet["tokens"] == {"input": 10, "output": 2, "cached": 0}
    assert fleet["cost"] == 0.5
    assert fleet["redundant_gets"] == {"calls": 4, "redundant": 1, "rate": 0.25}
    assert set(fleet["staleness"]) == {
        "fresh", "merged", "ageing", "stale", "invalidated",
    }  # fmt: skip
