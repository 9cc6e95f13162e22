"""The whole chain: order, events, snapshots, and servers that come and go."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pytest_django import Settings

from agents.db import run_in_db
from agents.game.client import GameUnreachableError
from agents.models import Event, Mysis
from agents.tools.chain import Toolbox, compose, open_toolbox
from agents.tools.request import CallNext, CallPlace, Outcome, Request, ToolSession
from memory.models import GameSnapshot, Memory
from memory.snapshots import reads
from sandbox.game.testing import SandboxServer
from tests.factories import make_mysis

CALLED = {"tool", "arguments", "ok", "ms", "tick", "memory", "turn", "call", "outcome"}
REGISTER = json.dumps({"username": "Ada Nova", "empire": "solarian"})


@pytest.fixture
async def box(sandbox: SandboxServer, mysis: Mysis) -> AsyncIterator[Toolbox]:
    """Ada, registered and docked at home."""
    toolbox = await open_toolbox(mysis.pk)
    assert not (await toolbox.call("register", REGISTER)).is_error
    yield toolbox


async def _events(kind: str) -> list[dict[str, Any]]:
    return [e.data async for e in Event.objects.filter(kind=kind).order_by("id")]


async def test_steps_run_from_the_outermost_in() -> None:
    order: list[str] = []

    def step(name: str) -> Any:
        async def run(request: Request, call_next: CallNext) -> Outcome:
            order.append(name)
            return await call_next(request)

        return run

    async def last(_: Request) -> Outcome:
        order.append("last")
        return Outcome(("",))

    await compose([step("a"), step("b")], last)(Request(ToolSession(1, {}), "x"))
    assert order == ["a", "b", "last"]


async def test_a_good_state_call_is_captured_and_told(
    box: Toolbox, mysis: Mysis
) -> None:
    shown = await box.call("get_ship", '{"session_id": "made up"}')
    row = await GameSnapshot.objects.aget()
    assert (row.username, row.tool_name, row.args) == ("Ada Nova", "get_ship", {})
    assert row.content == shown.text
    assert await _events("snapshot.updated") == [
        {"account": "Ada Nova", "tool": "get_ship", "args": {}, "tick": None}
    ]
    event = await Event.objects.filter(kind="tool.called").alatest("id")
    assert event.mysis_id == mysis.pk
    assert event.data["ok"] is True
    assert event.data["ms"] >= 0
    assert set(event.data) == CALLED


async def test_snapshots_are_kept_by_arguments(box: Toolbox) -> None:
    await box.call("get_map", '{"system_id": "sol"}')
    await box.call("get_map", "")
    keys = [row.args async for row in GameSnapshot.objects.order_by("id")]
    assert keys == [{"system_id": "sol"}, {}]


async def test_errors_and_drains_are_never_captured(box: Toolbox) -> None:
    refused = await box.call("captains_log_get", '{"index": 7}')
    assert refused.is_error
    drained = await box.call("get_notifications", "")
    assert not drained.is_error
    assert drained.tick is not None
    assert not await GameSnapshot.objects.aexists()


async def test_the_tick_of_a_drain_stamps_the_account(
    box: Toolbox, sandbox: SandboxServer
) -> None:
    tick = sandbox.step(3)
    assert (await box.call("get_notifications", "")).tick == tick
    assert await run_in_db(reads.read_tick, "Ada Nova") == tick
    await box.call("get_ship", "")
    assert (await GameSnapshot.objects.aget()).game_tick == tick


async def test_an_action_marks_what_it_touches_and_says_when_it_resolves(
    box: Toolbox, sandbox: SandboxServer
) -> None:
    await box.call("undock", "")
    tick = sandbox.step()
    await box.call("get_notifications", "")
    system = json.loads((await box.call("get_system", "")).text)
    here = json.loads((await box.call("get_poi", "")).text)["poi"]["id"]
    poi = next(p["id"] for p in system["pois"] if p["id"] != here)
    answer = await box.call("travel", json.dumps({"target_poi": poi}))
    arrival = json.loads(answer.text)["arrival_tick"]
    assert answer.resolve_tick == arrival > tick
    stale = await _events("snapshot.stale")
    assert {"get_system", "get_poi"} <= {data["tool"] for data in stale}
    last = stale[-1]
    assert (last["account"], last["reason"]) == ("Ada Nova", "travel")
    row = await GameSnapshot.objects.aget(tool_name="get_poi")
    assert (row.stale_reason, row.stale_tick) == ("travel", arrival)


async def test_an_action_held_for_its_tick_is_awaited(
    box: Toolbox, sandbox: SandboxServer
) -> None:
    await box.call("undock", "")
    held = asyncio.create_task(box.call("dock", ""))
    await asyncio.to_thread(sandbox.wait_until_held)
    assert not held.done()
    await asyncio.to_thread(sandbox.step)
    assert not (await held).is_error


async def test_a_bad_call_is_recorded_as_failed(box: Toolbox) -> None:
    await box.call("travel", '{"destination": "sol"}')
    await box.call("nonsense", "{not json")
    failed = [d for d in await _events("tool.called") if not d["ok"]]
    assert [(d["tool"], d["arguments"]) for d in failed] == [
        ("travel", {"destination": "sol"}),
        ("nonsense", "{not json"),
    ]


async def test_policies_come_with_the_tools(box: Toolbox) -> None:
    wanted = {
        "get_ship": "snapshot",
        "get_notifications": "drain",
        "travel": "mutation",
        "captains_log_add": "mutation",
        "find_route": "query",
        "zoea_search_messages": "query",
    }
    assert {name: box.tools[name].spec.policy for name in wanted} == wanted
    assert [spec.name for spec in box.specs if spec.read_only].count("get_map") == 1


async def test_a_restarted_server_is_a_new_session_and_a_new_login(
    mysis: Mysis, settings: Settings, tmp_path: Any
) -> None:
    world = tmp_path / "world"
    with SandboxServer(state=world) as first:
        settings.SPACEMOLT_MCP_URL = first.url
        box = await open_toolbox(mysis.pk)
        assert not (await box.call("register", REGISTER)).is_error
        port = int(first.url.split(":")[2].split("/")[0])
    with pytest.raises(GameUnreachableError, match="SPACEMOLT_MCP_URL"):
        await box.call("get_ship", "")
    failed = (await _events("tool.called"))[-1]
    assert (failed["tool"], failed["ok"]) == ("get_ship", False)
    with SandboxServer(state=world, port=port):
        assert not (await box.call("undock", "")).is_error
        assert not (await box.call("get_ship", "")).is_error


async def test_sixteen_play_at_once(
    sandbox: SandboxServer, transactional_db: Any
) -> None:
    myses = [await run_in_db(make_mysis) for _ in range(16)]

    async def play(number: int, mysis: Mysis) -> str:
        box = await open_toolbox(mysis.pk)
        name = f"Captain {number}"
        await box.call("register", json.dumps({"username": name, "empire": "nebula"}))
        status = await box.call("get_status", "")
        return str(json.loads(status.text)["player"]["username"])

    names = await asyncio.gather(*(play(n, m) for n, m in enumerate(myses)))
    assert names == [f"Captain {number}" for number in range(16)]
    assert await GameSnapshot.objects.acount() == 16


async def test_an_event_names_the_outcome_and_its_place(
    box: Toolbox, mysis: Mysis, sandbox: SandboxServer
) -> None:
    place = CallPlace(memory=41, turn=7, call=2)
    await box.call("mine", "", place=place)
    await box.call("undock", "", place=place)
    refused, queued = (await _events("tool.called"))[-2:]
    assert (queued["memory"], queued["turn"], queued["call"]) == (41, 7, 2)
    assert queued["outcome"].startswith("undock: queued")
    assert refused["outcome"].startswith("could not mine: ")


async def test_the_fetch_of_an_event_tells_what_was_queued(
    box: Toolbox, mysis: Mysis, sandbox: SandboxServer
) -> None:
    row = await Memory.objects.acreate(
        mysis=mysis, role="tool", origin="tool", tool_name="undock", content="{}"
    )
    await box.call("undock", "")
    sandbox.step()
    later = await open_toolbox(mysis.pk)
    later.turn = 9
    await later.call("get_notifications", "")
    told = (await _events("tool.called"))[-1]
    assert told["outcome"] == "undocked"
    assert (told["told"], told["memory"], told["turn"], told["call"]) == (
        1, row.pk, 9, None,
    )  # fmt: skip


async def test_no_secret_is_in_an_outcome(box: Toolbox, mysis: Mysis) -> None:
    session = box.card.session if box.card else ""
    await box.call("captains_log_add", json.dumps({"entry": f"mine is {session}"}))
    await box.call("set_status", json.dumps({"message": session}))
    await box.call("logout", "")
    for data in await _events("tool.called"):
        assert session not in json.dumps(data)
        assert data["outcome"]
