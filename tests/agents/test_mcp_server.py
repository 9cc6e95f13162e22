"""Our MCP server under Daphne, asked by the official client."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import mcp_types as types
import pytest
from django.contrib.auth.models import User
from django.test import Client as Browser
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from agents.lab import kept_replays, replay_job
from agents.lab.policies import read_policies
from agents.models import Broadcast, Mysis, Pin
from bench.processes import Server
from memory.gamestate.extract import read_result
from memory.handles import LARGEST_PART
from memory.models import Memory
from memory.snapshots import writes
from tests.agents.lab.histories import make_pilot, record_turn
from tests.factories import make_account, make_memory, make_mysis
from tests.programs import MCP_ACCEPT, MCP_INITIALIZE
from zoea.auth import create_token
from zoea.models import ApiToken

pytestmark = pytest.mark.django_db(transaction=True)
READING = {
    "zoea_search_messages", "zoea_search_reasoning", "zoea_search_broadcasts",
    "zoea_recall", "zoea_list_myses", "zoea_swarm_status", "zoea_preview_context", "zoea_list_orders",
    "zoea_list_events", "zoea_yield", "zoea_search_records", "zoea_read_replay",
    "zoea_predict_price", "zoea_recommend_policy", "zoea_analytics",
}  # fmt: skip
SENDING = {
    "zoea_send_message", "zoea_broadcast", "zoea_send_order", "zoea_change_order",
    "zoea_start_replay",
}  # fmt: skip


@pytest.fixture
def viewer() -> str:
    return create_token(name="reader", role="viewer")[1]


@pytest.fixture
def operator() -> str:
    return create_token(name="helm", role="operator")[1]


@asynccontextmanager
async def client(server: Server, token: str, mode: str = "auto") -> AsyncIterator[Any]:
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        transport = streamable_http_client(f"{server.origin}/mcp", http_client=http)
        async with Client(transport, mode=mode) as session:
            yield session


async def ask(
    server: Server, token: str, tool: str, **arguments: Any
) -> types.CallToolResult:
    async with client(server, token) as session:
        found: types.CallToolResult = await session.call_tool(tool, arguments)
        return found


async def value_over_rest(
    server: Server, token: str, method: str, path: str, body: Any = None
) -> Any:
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        address = f"{server.origin}/api/v1{path}"
        answer = await http.request(method, address, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def value(server: Server, token: str, tool: str, **arguments: Any) -> Any:
    found = await ask(server, token, tool, **arguments)
    assert not found.is_error, text(found)
    return found.structured_content


async def refusal(server: Server, token: str, tool: str, **arguments: Any) -> str:
    found = await ask(server, token, tool, **arguments)
    assert found.is_error
    return text(found)


def text(found: types.CallToolResult) -> str:
    return "\n".join(b.text for b in found.content if isinstance(b, types.TextContent))


def post(server: Server, **headers: str) -> httpx2.Response:
    return httpx2.post(
        f"{server.origin}/mcp",
        json=MCP_INITIALIZE,
        headers=MCP_ACCEPT | headers,
        timeout=60,
    )


def history() -> tuple[Mysis, Mysis]:
    ada, bob = make_mysis(name="Ada"), make_mysis(name="Bob")
    for number in range(5):
        make_memory(ada, content=f"iron ore {number}")
    make_memory(ada, role="assistant", content="Onward.", reasoning="iron is cheap")
    make_memory(bob, content="iron ore of Bob")
    return ada, bob


async def test_no_secret_is_in_an_answer(server: Server, viewer: str) -> None:
    """Out of a row that was stored before (A11)."""
    make_account(password="opensesame-4711")
    ada = make_mysis(name="Ada", last_error="opensesame-4711")
    row = make_memory(ada, content="iron opensesame-4711, pwd: hunter2")
    for tool, given in {
        "zoea_preview_context": {"mysis_id": "Ada"},
        "zoea_recall": {"handle": f"ctx://{ada.pk}/{row.pk}"},
        "zoea_search_messages": {"mysis_id": "Ada", "query": "iron"},
        "zoea_list_myses": {},
    }.items():
        found = await ask(server, viewer, tool, **given)
        assert isinstance(found.structured_content, dict)
        told = json.dumps(found.structured_content) + text(found)
        assert "opensesame" not in told, tool
        assert "hunter2" not in told, tool
        assert "[hidden]" in told or tool == "zoea_list_myses"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_tools_of_each_role(
    server: Server, viewer: str, operator: str, mode: str
) -> None:
    for token, names in ((viewer, READING), (operator, READING | SENDING)):
        async with client(server, token, mode) as session:
            listed = await session.list_tools()
            assert {tool.name for tool in listed.tools} == names
            for tool in listed.tools:
                assert tool.annotations.read_only_hint is (tool.name in READING)
                assert tool.description
            # Several calls on one connection.
            for _ in range(2):
                found = await session.call_tool("zoea_swarm_status", {})
                assert found.structured_content["total"] == 0


async def test_a_replay_is_asked_for_and_read(
    server: Server, viewer: str, operator: str
) -> None:
    history()
    tool, asked = "zoea_start_replay", {"policies": [{"strategy": "window"}]}
    assert "role operator" in await refusal(server, viewer, tool, **asked)
    started = await value(server, operator, tool, mysis_id="Ada", since="7d", **asked)
    assert started["total"] == 0
    found = await value(server, viewer, "zoea_read_replay", replay=started["id"])
    assert (found["state"], found["total"]) == ("queued", 0)
    assert [one["name"] for one in found["policies"]] == ["own", "window"]
    for change, words in (
        ({"mysis_id": "Ada", "label": "miners"}, "label: leave it out"),
        ({"policies": ["none"]}, "policies[0]: there is no policy"),
        ({"since": "never"}, "since: give a moment"),
    ):
        assert words in await refusal(server, operator, tool, **asked | change)
    missing = await refusal(server, viewer, "zoea_read_replay", replay=9**9)
    assert "There is no replay" in missing


async def test_the_lab_tells_prices_outcomes_and_the_best_policy(
    server: Server, viewer: str
) -> None:
    ada = make_pilot(strategy="tiered")
    record_turn(ada, calls=3)
    tool = "zoea_predict_price"
    asked = {"strategy": "window", "options": {"window": 2}}
    found = await value(server, viewer, tool, mysis_id=ada.name, **asked)
    assert (found["calls"], found["sampled"], found["problem"]) == (3, 3, "")
    assert found["basis"] == "From 3 calls of the last hour."
    assert found == await value_over_rest(
        server, viewer, "POST", "/prices", {"mysis": ada.name, **asked}
    )
    now, then = found["now"], found["then"]
    assert now["tokens"] == now["input"] + now["output"]
    assert 0 < then["tokens"] < now["tokens"]
    for given, words in (
        ({}, "policy: name a policy, a prompt or a model"),
        (asked, "policy: name the policy that is changed, or a mysis"),
        ({"mysis_id": ada.name, "policy": "none"}, "no policy"),
        ({"mysis_id": ada.name, "strategy": "x" * 999}, "strategy: "),
        ({"mysis_id": "Nobody", **asked}, "there is no Mysis"),
    ):
        assert words in await refusal(server, viewer, tool, **given)
    tool = "zoea_recommend_policy"
    found = await value(server, viewer, tool)
    assert (found["replay"], found["candidates"]) == (None, [])
    policies = read_policies([{"name": "short", **asked}])
    replay = kept_replays.start_replay(policies=policies, by="test")
    replay.refresh_from_db()
    replay_job.run_replay(replay.pk, replay.job_id or 0)
    for given in ({}, {"mysis_id": ada.name}):
        found = await value(server, viewer, tool, **given)
        path = "/myses/Ada" if given else ""
        address = f"{path}/recommendation"
        assert found == await value_over_rest(server, viewer, "GET", address)
        assert (found["replay"], found["calls"]) == (replay.pk, 3)
        assert [one["name"] for one in found["candidates"]] == ["own", "short"]
        assert found["since"] < found["until"]
    found = await value(server, viewer, "zoea_analytics", by="policy", since="6h")
    assert [one["calls"] for one in found["items"]] == [3]
    assert (found["by"], found["count"], found["total"]["calls"]) == ("policy", 1, 3)
    said = await refusal(server, viewer, "zoea_analytics", since="never")
    assert "since: give 90m" in said


async def test_what_stands_beside_the_messages_is_searched(
    server: Server, viewer: str
) -> None:
    ada, bob = history()
    for number, mysis in enumerate((ada, bob, ada)):
        Pin.objects.create(mysis=mysis, text=f"Never sell iron {number}.")
    tool, asked = "zoea_search_records", {"kind": "pins", "query": "iron"}
    found = await value(server, viewer, tool, **asked, limit=2)
    assert [one["text"][-2] for one in found["matches"]] == ["1", "2"]
    assert [one["mysis"] for one in found["matches"]] == [bob.pk, ada.pk]
    assert found["matches"][0]["state"] == "active"
    found = await value(server, viewer, tool, **asked, mysis_id="Bob")
    assert found["count"] == 1
    said = await refusal(server, viewer, tool, kind="pins", query=" ")
    assert "Argument 'query' is empty" in said
    said = await refusal(server, viewer, tool, kind="ships", query="iron")
    assert "kind" in said


async def test_a_search_is_of_one_mysis_newest_chosen_oldest_first(
    server: Server, viewer: str
) -> None:
    """W10, W12, I31."""
    ada, _ = history()
    for reference in (ada.pk, str(ada.pk), "Ada"):
        found = await value(
            server,
            viewer,
            "zoea_search_messages",
            mysis_id=reference,
            query="iron ore",
            limit=2,
        )
        contents = [hit["content"] for hit in found["matches"]]
        assert contents == ["iron ore 3", "iron ore 4"]
    thought = await value(
        server, viewer, "zoea_search_reasoning", mysis_id="Ada", query="cheap"
    )
    assert thought["matches"][0]["reasoning"] == "iron is cheap"
    none = await ask(
        server,
        viewer,
        "zoea_search_messages",
        mysis_id="Ada",
        query="Iron",
        mode="exact",
    )
    assert not none.is_error
    assert json.loads(text(none)) == {"count": 0, "matches": []}


async def test_broadcasts_are_searched_swarm_wide(server: Server, viewer: str) -> None:
    """W11."""
    Broadcast.objects.create(text="enemy spotted", sender="operator:ann")
    found = await value(server, viewer, "zoea_search_broadcasts", query="enemy")
    assert [hit["content"] for hit in found["matches"]] == ["enemy spotted"]


async def test_recall_of_messages_and_snapshots(server: Server, viewer: str) -> None:
    """I21."""
    ada, bob = make_mysis(name="Ada"), make_mysis(name="Bob")
    long = make_memory(ada, content="é|" * LARGEST_PART)
    ada.account = make_account(username="AdaPilot")
    ada.save()
    ship = json.dumps({"ship": {"hull": 85}})
    writes.capture_snapshot(
        username="AdaPilot",
        tool="get_ship",
        args={},
        text=ship,
        result=read_result(ship),
    )
    for owner in (ada.pk, "Ada"):
        handle, parts, offset = f"ctx://{owner}/{long.pk}", [], 0
        while offset is not None:
            found = await value(
                server, viewer, "zoea_recall", handle=handle, offset=offset
            )
            parts.append(found["content"])
            offset = found["next_offset"]
        assert "".join(parts) == long.content
        assert len(parts) == 2
    found = await value(
        server, viewer, "zoea_recall", handle="state://get_ship", mysis_id="Ada"
    )
    assert json.loads(found["content"]) == json.loads(ship)
    for arguments in (
        {"handle": f"ctx://{bob.pk}/{long.pk}"},
        {"handle": f"ctx://self/{long.pk}"},
        {"handle": "state://get_ship"},
        {"handle": "state://get_ship", "mysis_id": "Bob"},
    ):
        said = await refusal(server, viewer, "zoea_recall", **arguments)
        assert "é|" not in said
        assert "hull" not in said


async def test_the_fleet_and_a_preview(server: Server, viewer: str) -> None:
    history()
    listed = await value(server, viewer, "zoea_list_myses")
    assert [line["name"] for line in listed["myses"]] == ["Ada", "Bob"]
    assert {"model", "policy", "activity", "last_error"} <= set(listed["myses"][0])
    preview = await value(
        server, viewer, "zoea_preview_context", mysis_id="Ada", strategy="window"
    )
    assert preview["stats"]["strategy"] == "window"
    assert "iron ore of Bob" not in json.dumps(preview)
    said = await refusal(
        server, viewer, "zoea_preview_context", mysis_id="Ada", strategy="magic"
    )
    assert "magic" in said


async def test_an_operator_writes_and_a_viewer_does_not(
    server: Server, viewer: str, operator: str
) -> None:
    ada, bob = make_mysis(name="Ada"), make_mysis(name="Bob")
    message = {"mysis_id": "Ada", "message": "Mine."}
    said = await refusal(server, viewer, "zoea_send_message", **message)
    assert "operator" in said
    said = await refusal(server, viewer, "zoea_broadcast", message="All.")
    assert "operator" in said
    assert not Memory.objects.exists()
    await value(server, operator, "zoea_send_message", **message)
    row = Memory.objects.get()
    assert (row.mysis_id, row.content, row.sender, row.origin) == (
        ada.pk,
        "Mine.",
        "token:helm",
        "human",
    )
    sent = await value(server, operator, "zoea_broadcast", message="All to Sol.")
    assert sent["recipients"] == 2
    assert bob.memories.get().content == "All to Sol."


async def test_a_bad_call_is_an_error_result(server: Server, operator: str) -> None:
    make_mysis(name="Ada")
    calls: list[tuple[str, dict[str, Any], str]] = [
        ("zoea_search_messages", {"mysis_id": "Ada", "query": " "}, "'query' is empty"),
        ("zoea_search_messages", {"query": "x"}, "'mysis_id' is missing"),
        ("zoea_search_messages", {"mysis_id": "Eve", "query": "x"}, "no Mysis 'Eve'"),
        ("zoea_search_messages", {"mysis_id": "a\x00", "query": "x"}, "no Mysis"),
        ("zoea_search_messages", {"mysis_id": 1, "query": "x", "limit": 101}, "'limit'"),
        ("zoea_search_broadcasts", {"query": "x", "colour": "red"}, "'colour'"),
        ("zoea_recall", {"handle": "12"}, "ctx://"),
        ("zoea_dance", {}, "There is no tool 'zoea_dance'"),
    ]  # fmt: skip
    async with client(server, operator) as session:
        for tool, arguments, says in calls:
            found = await session.call_tool(tool, arguments)
            assert found.is_error
            assert says in text(found)


def test_strangers_are_401(server: Server) -> None:
    for given in (None, "Bearer zoea_wrong", "Bearer", "Basic YTpi"):
        found = post(server, **({"Authorization": given} if given else {}))
        assert found.status_code == 401
        assert found.json()["code"] == "unauthenticated"
        assert found.headers["www-authenticate"] == "Bearer"


def test_a_browser_s_session_is_a_stranger(server: Server) -> None:
    client = Browser()
    client.force_login(User.objects.create_superuser("grace"))
    session = client.cookies["sessionid"].value
    found = post(server, Cookie=f"sessionid={session}", Origin=server.origin)
    assert found.status_code == 401


def test_a_revoked_token_is_a_stranger(server: Server, viewer: str) -> None:
    bearer = {"Authorization": f"Bearer {viewer}"}
    assert post(server, **bearer).status_code == 200
    ApiToken.objects.all().delete()
    assert post(server, **bearer).status_code == 401


def test_other_hosts_and_origins_are_refused(server: Server, viewer: str) -> None:
    """DNS rebinding: the name that a page was loaded from is not one of ours."""
    bearer = {"Authorization": f"Bearer {viewer}"}
    for host in ("evil.example", f"evil.example:{server.port}", "127.0.0.1.evil.com"):
        assert post(server, **bearer, Host=host).status_code == 421, host
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1", "file://"):
        assert post(server, **bearer, Origin=origin).status_code == 403, origin
    assert post(server, **bearer, Origin=server.origin).status_code == 200
    assert post(server, **bearer, Host=f"localhost:{server.port}").status_code == 200


def test_other_methods_and_too_large_bodies(server: Server, viewer: str) -> None:
    bearer = {"Authorization": f"Bearer {viewer}"}
    url = f"{server.origin}/mcp"
    for method in ("GET", "DELETE", "PUT", "OPTIONS", "TRACE", "PROPFIND"):
        found = httpx2.request(method, url, headers=bearer, timeout=60)
        assert (found.status_code, found.headers["allow"]) == (405, "POST")
    large = httpx2.post(url, content=b" " * (1024 * 1024 + 1), headers=bearer)
    assert (large.status_code, large.json()["code"]) == (413, "too_large")
    assert httpx2.get(f"{server.origin}/healthz").status_code == 200


def test_a_call_holds_few_lists_and_objects(server: Server, viewer: str) -> None:
    bearer = {"Authorization": f"Bearer {viewer}"}
    many = b'{"method": "tools/call", "params": [' + b"{}," * 340_000 + b"1]}"
    found = httpx2.post(f"{server.origin}/mcp", content=many, headers=bearer)
    assert (found.status_code, found.json()) == (
        413,
        {
            "detail": "The body holds more than 1,000 lists and objects: send fewer at "
            "once.",
            "code": "too_large",
        },
    )


DEEP = b"[" * 100_000


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{", {}, 400),
        (b"", {}, 400),
        (b"\xff\xfe", {}, 400),
        (DEEP, {}, 400),
        (b'{"jsonrpc": "2.0", "id": 1}', {}, 400),
        (b"[1, 2]", {}, 400),
        (b"{}", {"Accept": "text/html"}, 406),
    ],
    ids=["cut", "empty", "no utf-8", "deep", "no method", "no message", "accept"],
)
def test_bad_input_is_said_in_the_shape_of_all_refusals(
    server: Server,
    viewer: str,
    body: bytes,
    headers: dict[str, str],
    status: int,
) -> None:
    """Whichever way into the SDK it takes."""
    plain = {"Content-Type": "application/json", "Accept": "*/*"}
    for version in ({}, {"MCP-Protocol-Version": "2099-01-01"}):
        sent = plain | {"Authorization": f"Bearer {viewer}"} | headers | version
        found = httpx2.post(f"{server.origin}/mcp", content=body, headers=sent)
        assert found.status_code == status
        told = found.json()
        assert told["detail"]
        assert isinstance(told["code"], str)
        if "jsonrpc" in told:
            assert isinstance(told["error"]["code"], int)


async def test_the_official_client_still_reads_an_error(
    server: Server, viewer: str
) -> None:
    """A method that is not there is a 404 with a JSON-RPC error."""
    async with client(server, viewer) as session:
        with pytest.raises(MCPError) as refused:
            await session.read_resource("file:///x")
    assert refused.value.error.code == types.METHOD_NOT_FOUND
