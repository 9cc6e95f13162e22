"""The game over real HTTP, with the official client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client import Client

from sandbox.game.table import list_tools
from sandbox.game.testing import SandboxServer
from tests.sandbox.remote import HEADERS, INITIALIZE, connected


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SandboxServer]:
    with SandboxServer() as server:
        yield server


async def test_a_captains_round(sandbox: SandboxServer) -> None:
    async with connected(sandbox.url) as captain:
        first = await captain.register("Round Trip")

        async def act(tool: str, **arguments: Any) -> None:
            answer = await captain.call(tool, **arguments)
            assert answer["queued"] is True
            sandbox.step(answer.get("ticks", 1))

        await act("undock")
        await act("travel", target_poi="sol_belt")
        await act("mine")
        cargo = (await captain.call("get_cargo"))["cargo"]
        await act("travel", target_poi="sol_station")
        await act("dock")
        await act("sell", item_id=cargo[0]["item_id"], quantity=cargo[0]["quantity"])
        read = await captain.call("get_notifications")
        told = [one["msg_type"] for one in read["notifications"]]
        assert [kind for kind in told if not kind.startswith("poi_")] == [
            *("ok", "ok", "mining_yield", "ok", "ok", "ok")
        ]
        assert read["current_tick"] == sandbox.game.tick
        rich = (await captain.call("get_status"))["player"]["credits"]
        assert rich > 100
        await captain.call("logout")
        assert (await captain.text("get_status")).startswith("Error: session_invalid: ")
        again = await captain.call(
            "login", username="Round Trip", password=first["password"]
        )
        captain.given = {"session_id": again["session_id"]}
        assert (await captain.call("get_status"))["player"]["credits"] == rich


async def test_the_text_of_a_result_is_indented_json(sandbox: SandboxServer) -> None:
    async with connected(sandbox.url) as captain:
        text = await captain.text("get_version")
        assert text == json.dumps(json.loads(text), indent=2, ensure_ascii=False)
        assert text.startswith('{\n  "version": "')


async def test_the_tools_are_listed_as_recorded(sandbox: SandboxServer) -> None:
    async with connected(sandbox.url) as captain:
        tools = {tool.name: tool for tool in (await captain.session.list_tools()).tools}
    assert set(tools) == set(list_tools("A"))
    assert tools["get_notifications"].description == (
        "Poll for pending notifications (chat, combat, trades, etc.)."
    )
    assert tools["get_notifications"].input_schema == {
        "type": "object",
        "properties": {
            "session_id": {
                "type": "string",
                "description": "Your session ID from login/register",
            }
        },
        "required": ["session_id"],
    }
    free = {"register", "login", "get_version", "get_commands"}
    harmful = {"attack", "self_destruct", "jettison", "abandon_mission", "sell_ship"}
    for name, tool in tools.items():
        required = tool.input_schema.get("required", [])
        assert ("session_id" in required) is (name not in free)
        hints = tool.annotations
        assert hints is not None
        assert hints.destructive_hint is (name in harmful)
        assert hints.idempotent_hint is hints.read_only_hint
    assert tools["travel"].input_schema["required"] == ["session_id", "target_poi"]
    readers = {
        name
        for name, tool in tools.items()
        if tool.annotations and tool.annotations.read_only_hint
    }
    assert {"get_status", "get_notifications", "captains_log_get"} <= readers
    assert not readers & {"register", "login", "logout", "captains_log_add", "mine"}


async def test_a_second_action_is_held_until_the_next_tick(
    sandbox: SandboxServer,
) -> None:
    async with connected(sandbox.url) as captain:
        await captain.register("Hasty")
        await captain.call("undock")
        early = asyncio.create_task(captain.call("travel", target_poi="sol_belt"))
        await asyncio.to_thread(sandbox.wait_until_held)
        # Questions are answered meanwhile, on the same connection.
        await captain.call("get_status")
        assert not early.done()
        tick = sandbox.step()
        assert (await early)["arrival_tick"] == tick + 1


async def test_errors_arrive_as_results(sandbox: SandboxServer) -> None:
    async with connected(sandbox.url) as captain:
        assert await captain.text("get_status") == (
            "Error: session_required: You must provide a session_id. "
            "Get one by calling login() or register() first."
        )
        assert await captain.text("get_market") == (
            "Error: unknown_command: Unknown command: get_market. "
            "Use the 'help' command to see available commands."
        )
        await captain.register("Clumsy")
        assert (await captain.text("travel", destination="main_belt")).startswith(
            "Error: invalid_payload: Unknown parameter(s): [destination]. "
        )


async def test_answers_may_be_event_streams() -> None:
    with SandboxServer(json_response=False) as sandbox:
        async with connected(sandbox.url) as captain:
            await captain.register("Streamer")
            assert (await captain.call("undock"))["queued"] is True


async def test_a_client_that_could_do_without_falls_back_to_the_handshake(
    sandbox: SandboxServer,
) -> None:
    async with Client(sandbox.url) as client:
        assert client.session.protocol_version == "2025-11-25"
        assert (await client.list_tools()).tools


async def test_the_bare_protocol(sandbox: SandboxServer) -> None:
    async with httpx2.AsyncClient(headers=HEADERS) as http:
        hello = await http.post(sandbox.url, json=INITIALIZE)
        result = hello.json()["result"]
        assert result["protocolVersion"] == "2025-03-26"
        assert result["serverInfo"]["name"] == "spacemolt-gameserver"
        assert set(result["capabilities"]) == {"resources", "tools"}
        assert "session_id" in result["instructions"]
        session = {"Mcp-Session-Id": hello.headers["Mcp-Session-Id"]}
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        accepted = await http.post(sandbox.url, json=ready, headers=session)
        assert accepted.status_code == 202
        call = {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "get_version", "arguments": {}},
        }
        answer = (await http.post(sandbox.url, json=call, headers=session)).json()
        assert set(answer["result"]) <= {"content", "isError"}
        lost = await http.post(
            sandbox.url, json=call, headers={"Mcp-Session-Id": "0" * 32}
        )
        assert lost.status_code == 404
        assert lost.json()["error"]["code"] == -32600


async def test_messages_of_any_size_are_not_taken(sandbox: SandboxServer) -> None:
    async with httpx2.AsyncClient(headers=HEADERS) as http:
        big = {**INITIALIZE, "padding": "x" * 800_000}
        assert (await http.post(sandbox.url, json=big)).status_code == 413


async def test_foreign_pages_are_refused(sandbox: SandboxServer) -> None:
    async with httpx2.AsyncClient(headers=HEADERS) as http:
        foreign = {"Origin": "http://evil.example"}
        answer = await http.post(sandbox.url, json=INITIALIZE, headers=foreign)
        assert answer.status_code == 403


async def test_many_captains_at_once(sandbox: SandboxServer) -> None:
    async def one(number: int) -> None:
        async with connected(sandbox.url) as captain:
            await captain.register(f"Crowd {number}")
            assert (await captain.call("undock"))["queued"] is True
            assert (await captain.call("get_nearby"))["poi_id"] == "sol_station"

    await asyncio.gather(*(one(number) for number in range(40)))


async def test_a_clock_of_its_own_serves_who_waits() -> None:
    with SandboxServer(tick=0.02) as sandbox:
        async with connected(sandbox.url) as captain:
            await captain.register("Patient")
            await captain.call("undock")
            assert (await captain.call("travel", target_poi="sol_belt"))["queued"]
            assert (await captain.call("mine"))["queued"]


async def test_a_registration_outlives_the_server(tmp_path: Path) -> None:
    path = tmp_path / "world.json"
    with SandboxServer(state=path) as sandbox:
        async with connected(sandbox.url) as captain:
            password = (await captain.register("Keeper"))["password"]
        # Not by an orderly end: what was answered is in the file already.
        assert b"Keeper" in path.read_bytes()
    with SandboxServer(state=path) as sandbox:
        async with connected(sandbox.url) as captain:
            await captain.call("login", username="Keeper", password=password)


async def test_the_end_of_the_server_frees_those_who_wait() -> None:
    with SandboxServer() as sandbox:
        async with connected(sandbox.url) as captain:
            await captain.register("Stranded")
            await captain.call("undock")
            early = asyncio.create_task(captain.text("dock"))
            await asyncio.to_thread(sandbox.wait_until_held)
            await asyncio.to_thread(sandbox.stop)
            assert (await early).startswith("Error: server_closing: ")
