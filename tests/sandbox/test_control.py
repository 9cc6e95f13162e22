"""The truth port: what is true, and the levers for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import httpx2
import pytest

from sandbox.game.testing import SandboxServer
from sandbox.game.truth import is_loopback
from tests.sandbox.remote import flying


@pytest.fixture
def control(sandbox: SandboxServer) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=sandbox.truth_url) as client:
        yield client


async def test_the_truth_is_what_an_account_would_be_told(
    sandbox: SandboxServer, control: httpx2.Client
) -> None:
    async with flying(sandbox) as ada:
        await ada.view("undock")
        control.post("/step")
        true = control.get("/truth/ada").json()
        assert true["tick"] == sandbox.game.tick
        assert true["username"] == "Ada"
        for tool in ("get_ship", "get_cargo", "get_system", "get_poi", "get_nearby"):
            assert true["snapshots"][tool] == await ada.view(tool)
        status = await ada.view("get_status")
        told = true["snapshots"]["get_status"]
        told["player"]["last_active_at"] = status["player"]["last_active_at"]
        assert told == status
        facts = true["facts"]
        assert facts["credits"] == status["player"]["credits"]
        assert facts["system_name"] == "Sol"
        assert facts["poi_id"] == status["player"]["current_poi"]
        assert facts["docked_at_base"] is None
        assert true["snapshots"]["get_base"]["error"]["code"] == "not_docked"
        one = control.get("/truth/Ada/find_route", params={"target_system": "krynn"})
        assert one.json() == await ada.view("find_route", target_system="krynn")
        assert control.get("/truth/Ada/get_map").json()["total_count"] == 20


async def test_a_query_asked_wrongly_is_refused(
    sandbox: SandboxServer, control: httpx2.Client
) -> None:
    async with flying(sandbox):
        for wrong in ("find_route", "get_status?target=x"):
            refusal = control.get(f"/truth/Ada/{wrong}")
            assert refusal.status_code == 400
            assert "parameter(s)" in refusal.json()["error"]


async def test_looking_takes_nothing_and_counts_for_nothing(
    sandbox: SandboxServer, control: httpx2.Client
) -> None:
    async with flying(sandbox) as ada:
        await ada.view("undock")
        sandbox.step()
        true = control.get("/truth/Ada").json()
        assert [one["msg_type"] for one in true["waiting"][0]] == ["ok"]
        assert control.get("/truth/Ada").json()["calls"] == true["calls"]
        read = await ada.view("get_notifications")
        assert read["notifications"] == true["waiting"][0]
        assert ada.password not in control.get("/truth/Ada").text
        assert ada.given["session_id"] not in control.get("/truth/Ada").text


async def test_calls_are_counted_by_account(
    sandbox: SandboxServer, control: httpx2.Client
) -> None:
    async with flying(sandbox) as ada:
        await ada.view("undock")
        sandbox.step()
        await ada.ask("mine")  # nothing to mine here
        await ada.view("get_status")
        await ada.view("get_status")
        await ada.view("captains_log_list")
        calls = control.get("/calls").json()["Ada"]
        assert calls["mutations_accepted"] == calls["mutations_executed"] == 1
        assert calls["get_calls"] == 2
        assert calls["by_tool"]["executed"] == {"undock": 1}
        assert calls["by_tool"]["queries"]["captains_log_list"] == 1
        assert calls["refused"] == {"no_resources": 1}
        assert sandbox.calls("Ada") == calls
        await ada.view("dock")
        player = sandbox.player("Ada")
        sandbox.run(lambda: setattr(player, "credits", 0))
        sandbox.step()
        player.ship.fuel = 50
        player.credits = 10
        await ada.view("buy", item_id="ore_iron", quantity=2)
        player.credits = 0
        sandbox.step()
        assert sandbox.calls("Ada")["by_tool"]["failed"] == {"buy": 1}
        control.post("/calls/reset")
        assert control.get("/calls").json() == {}


async def test_ticks_are_stepped_from_outside(
    sandbox: SandboxServer, control: httpx2.Client
) -> None:
    before = sandbox.game.tick
    assert control.post("/step").json() == {"tick": before + 1}
    assert control.post("/step", json={"ticks": 5}).json() == {"tick": before + 6}
    assert control.post("/step", json={"ticks": 0}).status_code == 400
    assert control.get("/truth").json()["tick"] == before + 6
    async with flying(sandbox) as ada:
        await ada.view("undock")
        early = asyncio.create_task(ada.view("travel", target_poi="sol_belt"))
        held = await asyncio.to_thread(control.post, "/held", json={"count": 1})
        assert held.json() == {"held": 1}
        await asyncio.to_thread(control.post, "/step")
        assert (await early)["queued"] is True
        # A tick has passed between the two steps' calls, for whoever waited.
        control.post("/step")
        assert sandbox.truth("Ada")["facts"]["poi_id"] == "sol_belt"


async def test_a_flight_has_no_place(sandbox: SandboxServer) -> None:
    async with flying(sandbox) as ada:
        await ada.view("undock")
        sandbox.step()
        near = (await ada.view("get_system"))["system"]["connections"][0]
        await ada.view("jump", target_system=near)
        sandbox.step()
        true = sandbox.truth("Ada")
        assert true["facts"]["in_transit"] is True
        assert true["facts"]["poi_id"] is None
        assert true["action"]["tool"] == "jump"
        assert true["facts"]["arrival_tick"] == true["tick"] + 1


async def test_faults_are_switched_while_it_runs(
    sandbox: SandboxServer, control: httpx2.Client
) -> None:
    async with flying(sandbox) as ada:
        control.post("/faults", json={"plan": "rate-limit=1"})
        assert (await ada.ask("get_status")).is_error
        control.post("/faults", json={"plan": ""})
        await ada.view("get_status")
        once = {"kind": "rate-limit", "tool": "get_cargo", "username": "Ada"}
        assert control.post("/faults/once", json=once).status_code == 201
        await ada.view("get_status")
        assert (await ada.ask("get_cargo")).is_error
        assert control.get("/faults").json()["struck"] == {"rate-limit": 2}
        bad = control.post("/faults", json={"plan": "flood=1"})
        assert bad.status_code == 400
        assert "no fault" in bad.json()["error"]


def test_the_clock_can_be_stopped() -> None:
    with (
        SandboxServer(tick=0.01) as sandbox,
        httpx2.Client(base_url=sandbox.truth_url, timeout=60) as control,
    ):
        control.post("/clock", json={"running": False})
        tick = control.get("/truth").json()["tick"]
        # Ticks that pass now are only those asked for.
        assert control.post("/step", json={"ticks": 3}).json()["tick"] == tick + 3
        assert control.post("/clock", json={"running": True}).json()["running"]


def test_what_is_unknown_is_not_found(control: httpx2.Client) -> None:
    assert control.get("/truth/Nobody").status_code == 404
    assert control.get("/truth/Nobody/get_status").status_code == 404


def test_pages_and_foreign_names_are_refused(control: httpx2.Client) -> None:
    assert (
        control.get("/truth", headers={"Origin": "http://127.0.0.1"}).status_code == 403
    )
    assert control.get("/truth", headers={"Host": "evil.example"}).status_code == 403
    assert control.get("/truth").status_code == 200


def test_what_is_loopback() -> None:
    assert is_loopback("127.0.0.1")
    assert is_loopback("::1")
    assert is_loopback("localhost")
    assert not is_loopback("0.0.0.0")  # noqa: S104 - a name, not a binding
    assert not is_loopback("example.com")
