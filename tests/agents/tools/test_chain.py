"""The whole chain: order, events, snapshots, and servers that come and go."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from asgiref.sync import ThreadSensitiveContext
from pytest_django import Settings

from agents.game.sandbox.testing import SandboxServer
from agents.models import Account, Event, Mysis
from agents.tools.chain import Toolbox, compose, open_toolbox
from agents.tools.crossing import cross
from agents.tools.request import CallNext, Outcome, Request, Seat
from agents.tools.types import GameUnreachableError
from memory import state
from memory.models import GameSnapshot
from tests.agents.game.faulty import (
    FaultyServer,
    Json,
    Reply,
    http,
    result,
    rpc_error,
)
from tests.factories import make_mysis

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

    await compose([step("a"), step("b")], last)(Request(Seat(1, {}), "x"))
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
    assert {"tool", "arguments", "ok", "ms", "tick"} == set(event.data)


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
    assert await cross(state.tick_of, "Ada Nova") == tick
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


async def test_a_refused_action_marks_nothing(box: Toolbox) -> None:
    await box.call("get_ship", "")
    refused = await box.call("mine", "")
    assert refused.is_error
    assert refused.resolve_tick is None
    assert await _events("snapshot.stale") == []


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
    assert {name: box.policies[name] for name in wanted} == wanted
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


async def test_event_streams_serve_as_well(mysis: Mysis, settings: Settings) -> None:
    with SandboxServer(json_response=False) as server:
        settings.SPACEMOLT_MCP_URL = server.url
        box = await open_toolbox(mysis.pk)
        assert not (await box.call("register", REGISTER)).is_error
        assert json.loads((await box.call("get_map", "")).text)["total_count"] == 20


async def test_a_server_that_is_down_is_said_at_the_opening(
    mysis: Mysis, settings: Settings
) -> None:
    settings.SPACEMOLT_MCP_URL = "http://127.0.0.1:9/mcp"
    with pytest.raises(GameUnreachableError, match="cannot be reached"):
        await open_toolbox(mysis.pk)


async def test_a_lost_transport_session_is_opened_anew_and_the_call_sent_once(
    faulty: FaultyServer, mysis: Mysis
) -> None:
    box = await open_toolbox(mysis.pk)
    faulty.forget()
    assert (await box.call("mine", "")).text == "ok"
    assert faulty.calls == [("mine", {})]
    assert faulty.opened == 2


async def test_a_server_that_loses_every_session_is_unreachable(
    faulty: FaultyServer, mysis: Mysis
) -> None:
    box = await open_toolbox(mysis.pk)
    faulty.plan.extend([rpc_error(-32600, "Session not initialized")] * 9)
    with pytest.raises(GameUnreachableError, match="loses every session"):
        await box.call("get_status", "")


async def test_a_json_rpc_error_is_an_error_result(
    faulty: FaultyServer, mysis: Mysis
) -> None:
    box = await open_toolbox(mysis.pk)
    faulty.plan.append(rpc_error(0, "empty_entry"))
    refused = await box.call("mine", "")
    assert (refused.text, refused.is_error) == ("Error: empty_entry", True)


async def test_an_error_in_a_good_result_is_an_error_result(
    faulty: FaultyServer, mysis: Mysis
) -> None:
    box = await open_toolbox(mysis.pk)
    faulty.plan.append(result('{"throttled": true, "retry_after": 3}'))
    assert (await box.call("get_status", "")).is_error


async def test_an_action_whose_reply_was_lost_is_not_repeated(
    faulty: FaultyServer, mysis: Mysis
) -> None:
    box = await open_toolbox(mysis.pk)
    faulty.plan.append(lambda _: Reply(drop=True))
    unknown = await box.call("mine", "")
    assert unknown.is_error
    assert "check get_status" in unknown.text
    assert len(faulty.calls) == 1


async def test_a_read_whose_reply_was_lost_is_repeated(
    faulty: FaultyServer, mysis: Mysis
) -> None:
    box = await open_toolbox(mysis.pk)
    faulty.plan.extend([lambda _: Reply(drop=True), http(502, "bad gateway")])
    assert (await box.call("get_status", "")).text == "ok"
    assert len(faulty.calls) == 3


async def test_a_stopped_turn_aborts_its_call_and_leaves_the_session_usable(
    faulty: FaultyServer, mysis: Mysis
) -> None:
    box = await open_toolbox(mysis.pk)
    held = asyncio.Event()
    faulty.plan.append(lambda _: Reply(hold=held))
    stopped = asyncio.create_task(box.call("mine", ""))
    await faulty.called.wait()
    stopped.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopped
    held.set()
    assert (await box.call("get_status", "")).text == "ok"
    assert faulty.opened == 1


async def test_a_registration_under_way_is_kept_when_the_turn_is_stopped(
    faulty: FaultyServer, mysis: Mysis
) -> None:
    names = {"username": {"type": "string"}, "empire": {"type": "string"}}
    schema = {"type": "object", "properties": names}
    faulty.tools = [{"name": "register", "inputSchema": schema}]
    held = asyncio.Event()
    text = json.dumps({"password": "a" * 64, "session_id": "5" * 32})
    faulty.plan.append(lambda m: Reply(200, result(text)(m).body, hold=held))
    box = await open_toolbox(mysis.pk)
    stopped = asyncio.create_task(box.call("register", REGISTER))
    await faulty.called.wait()
    stopped.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopped
    held.set()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    work = [t for t in others if "_register_upstream" in repr(t.get_coro())]
    await asyncio.gather(*work)
    account = await Account.objects.aget(username="Ada Nova")
    assert (account.password, account.assigned_to_id) == ("a" * 64, mysis.pk)


async def test_marks_of_mutations_are_asked_where_annotations_are_missing(
    faulty: FaultyServer, mysis: Mysis
) -> None:
    faulty.tools = [
        {"name": name, "inputSchema": {"type": "object"}}
        for name in ("get_commands", "help", "warp", "get_rich")
    ]
    marks = [
        {"name": "help", "is_mutation": False},
        {"name": "get_rich", "is_mutation": True},
    ]
    faulty.plan.append(result(json.dumps({"commands": marks})))
    box = await open_toolbox(mysis.pk)
    assert (box.policies["help"], box.policies["get_rich"]) == ("query", "mutation")
    assert (box.policies["warp"], box.policies["get_commands"]) == (
        "mutation",
        "snapshot",
    )
    await open_toolbox(mysis.pk)
    assert [name for name, _ in faulty.calls] == ["get_commands"]


async def test_sixteen_play_at_once(
    sandbox: SandboxServer, transactional_db: Any
) -> None:
    myses = [await cross(make_mysis) for _ in range(16)]

    async def play(number: int, mysis: Mysis) -> str:
        box = await open_toolbox(mysis.pk)
        name = f"Captain {number}"
        await box.call("register", json.dumps({"username": name, "empire": "nebula"}))
        status = await box.call("get_status", "")
        return str(json.loads(status.text)["player"]["username"])

    names = await asyncio.gather(*(play(n, m) for n, m in enumerate(myses)))
    assert names == [f"Captain {number}" for number in range(16)]
    assert await GameSnapshot.objects.acount() == 16


async def test_no_connection_to_the_database_is_held_while_the_game_is_awaited(
    faulty: FaultyServer, transactional_db: Any
) -> None:
    all_called = asyncio.Event()

    def answer(message: Json) -> Reply:
        if len(faulty.calls) == len(myses):
            all_called.set()
        return Reply(200, result("ok")(message).body, hold=all_called)

    faulty.plan.extend([answer] * 24)
    myses = [await cross(make_mysis) for _ in range(24)]

    async def play(mysis: Mysis) -> str:
        async with ThreadSensitiveContext():
            box = await open_toolbox(mysis.pk)
            return (await box.call("mine", "")).text

    assert await asyncio.gather(*(play(mysis) for mysis in myses)) == ["ok"] * 24


@pytest.mark.parametrize(
    "raw",
    [
        r'{"entry": "\ud800 \u0000 x"}',
        '{"entry": "\ud800\x00"}',
        '{"entry": ' + "[" * 900 + "]" * 900 + "}",
        '{"entry": 1e999}',
        '{"entry": ' + "9" * 5000 + "}",
        '{"\\u0000": 1}',
    ],
)
async def test_odd_arguments_never_break_a_call(
    faulty: FaultyServer, mysis: Mysis, raw: str
) -> None:
    schema = {"type": "object", "additionalProperties": True}
    faulty.tools = [{"name": "get_odd", "inputSchema": schema}]
    box = await open_toolbox(mysis.pk)
    await box.call("get_odd", raw)
    await box.call("zoea_search_messages", raw.replace("entry", "query"))
    await box.call("\ud800\x00", raw)
    assert len(await _events("tool.called")) == 3


async def test_odd_answers_are_results(faulty: FaultyServer, mysis: Mysis) -> None:
    box = await open_toolbox(mysis.pk)
    faulty.plan.append(result("a\x00b"))
    assert (await box.call("get_status", "")).text == "ab"
    deep = "[" * 5000 + "]" * 5000
    faulty.plan.append(result(f'{{"password": {deep}}}'))
    assert not (await box.call("get_status", "")).is_error


async def test_a_tool_that_vanished_is_gone_in_the_next_turn(
    faulty: FaultyServer, mysis: Mysis
) -> None:
    box = await open_toolbox(mysis.pk)
    faulty.tools.pop()
    gone = "Error: unknown_command: Unknown command: mine."
    faulty.plan.append(result(gone, is_error=True))
    assert (await box.call("mine", "")).text == gone
    names = {spec.name for spec in (await open_toolbox(mysis.pk)).specs}
    assert "mine" not in names
    assert "get_status" in names
