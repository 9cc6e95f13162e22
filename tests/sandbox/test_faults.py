"""Everything that goes wrong on purpose, met by the program's own client."""

from __future__ import annotations

import asyncio
import json

import httpx2
import pytest

from agents.game.accounts import read_credentials
from agents.game.client import (
    RateLimitedError,
    ReplyLostError,
    SessionLostError,
    connect,
)
from sandbox.game.faults import (
    KINDS,
    SHAPING,
    STOPPING,
    VANISHED_TICKS,
    Faults,
    Order,
    parse_plan,
)
from sandbox.game.testing import SandboxServer
from tests.sandbox.remote import HEADERS, INITIALIZE, flying

# -- one by one --------------------------------------------------------------


async def test_a_lost_game_session_needs_a_new_login(sandbox: SandboxServer) -> None:
    async with flying(sandbox, "Ada 1") as ada:
        sandbox.strike_once("lost-session", tool="get_status")
        await ada.view("get_cargo")
        lost = await ada.ask("get_status")
        assert lost.is_error
        assert lost.blocks[0].startswith("Error: session_invalid: ")
        again = await ada.ask("login", username="Ada 1", password=ada.password)
        ada.given = {"session_id": json.loads(again.blocks[0])["session_id"]}
        await ada.view("get_status")


async def test_a_lost_transport_session_is_lost_for_good(
    sandbox: SandboxServer,
) -> None:
    async with flying(sandbox, "Ada 2") as ada:
        sandbox.strike_once("lost-transport")
        for _ in range(2):
            with pytest.raises(SessionLostError, match="Session not initialized"):
                await ada.ask("get_status")
        with pytest.raises(SessionLostError):
            await ada.connection.refresh()
        async with connect(sandbox.url) as anew:
            answer = await anew.call("get_status", ada.given)
            assert not answer.is_error


async def test_too_many_requests(sandbox: SandboxServer) -> None:
    async with flying(sandbox, "Ada 3") as ada:
        sandbox.strike_once("429")
        with pytest.raises(RateLimitedError) as caught:
            await ada.ask("get_status")
        assert caught.value.retry_after == 1
        sandbox.strike_once("rate-limit")
        refused = await ada.ask("get_status")
        assert refused.is_error
        assert refused.blocks[0].startswith("Error: rate_limited: ")
        await ada.view("get_status")


async def test_a_bad_gateway_before_and_after_the_call(sandbox: SandboxServer) -> None:
    async with flying(sandbox, "Ada 4") as ada:
        sandbox.strike_once("502")
        with pytest.raises(ReplyLostError, match="502"):
            await ada.ask("undock")
        sandbox.step()
        assert sandbox.truth("Ada 4")["facts"]["docked_at_base"] == "sol_base"
        sandbox.strike_once("lost-answer")
        with pytest.raises(ReplyLostError, match="502"):
            await ada.ask("undock")
        sandbox.step()
        assert sandbox.truth("Ada 4")["facts"]["docked_at_base"] is None


async def test_a_delayed_answer_comes_with_the_next_tick(
    sandbox: SandboxServer,
) -> None:
    async with flying(sandbox, "Ada 5") as ada:
        sandbox.strike_once("delay")
        late = asyncio.create_task(ada.view("get_notifications"))
        await asyncio.to_thread(sandbox.wait_until_held)
        assert not late.done()
        tick = sandbox.step()
        assert (await late)["current_tick"] == tick


async def test_empty_lists_may_be_null(sandbox: SandboxServer) -> None:
    async with flying(sandbox, "Ada 6") as ada:
        assert (await ada.view("get_cargo"))["cargo"] == []
        sandbox.strike_once("null-lists")
        assert (await ada.view("get_cargo"))["cargo"] is None


@pytest.mark.parametrize("json_response", [True, False])
async def test_text_instead_of_json(json_response: bool) -> None:
    with SandboxServer(json_response=json_response) as sandbox:
        async with flying(sandbox) as ada:
            player = sandbox.player("Ada")
            sandbox.run(lambda: setattr(player, "credits", 12345))
            sandbox.strike_once("text")
            answer = await ada.ask("get_status")
            assert "Credits: 12,345" in answer.blocks[0]
            sandbox.strike_once("text")
            empty = await ada.ask("get_notifications")
            assert empty.blocks == ("No notifications.",)
            sandbox.strike_once("text")
            login = await ada.ask("login", username="Ada", password=ada.password)
            # Secrets can be read from the text too.
            assert len(read_credentials(login.blocks).session) == 32


async def test_one_answer_as_an_event_stream() -> None:
    with SandboxServer() as sandbox, httpx2.Client(headers=HEADERS, timeout=60) as http:
        hello = http.post(sandbox.url, json=INITIALIZE)
        session = {"Mcp-Session-Id": hello.headers["Mcp-Session-Id"]}
        http.post(
            sandbox.url,
            json={"jsonrpc": "2.0", "method": "notifications/initialized"},
            headers=session,
        )
        params = {"name": "get_version", "arguments": {}}
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
        sandbox.strike_once("sse")
        answer = http.post(sandbox.url, json=call, headers=session)
        assert answer.headers["content-type"] == "text/event-stream"
        plain = http.post(sandbox.url, json=call, headers=session)
        assert json.loads(answer.text.split("data: ")[1]) == plain.json()
        async with flying(sandbox) as ada:
            sandbox.strike_once("sse")
            await ada.view("get_status")


async def test_a_tool_vanishes_and_comes_back() -> None:
    with SandboxServer(faults="vanish=get_ship+scan") as sandbox:
        async with flying(sandbox) as ada:
            names = {tool.name for tool in await ada.connection.refresh()}
            assert not names & {"get_ship", "scan"}
            gone = await ada.ask("get_ship")
            assert gone.blocks[0].startswith("Error: unknown_command: ")
            sandbox.set_faults("")
            names = {tool.name for tool in await ada.connection.refresh()}
            assert {"get_ship", "scan"} <= names
            await ada.view("get_ship")


# -- by rate -----------------------------------------------------------------


async def test_rates_strike_as_often_as_said_and_are_counted() -> None:
    with SandboxServer(faults="rate-limit=0.3,null-lists=1") as sandbox:
        async with connect(sandbox.url) as connection:
            refused = 0
            for _ in range(100):
                answer = await connection.call("get_version", {})
                refused += answer.is_error
            assert 15 <= refused <= 45
            assert sandbox.struck["rate-limit"] == refused
            assert sandbox.struck["null-lists"] == 100 - refused


def strikes(seed: int, names: list[str]) -> list[tuple[str, list[str]]]:
    faults = Faults(seed, parse_plan("502=0.2,text=0.2,sse=0.2"))
    return [(name, sorted(faults.strike(name, "mine"))) for name in names]


def test_the_same_play_meets_the_same_faults() -> None:
    assert strikes(1, ["Ada"] * 50) == strikes(1, ["Ada"] * 50)
    assert strikes(1, ["Ada"] * 50) != strikes(2, ["Ada"] * 50)
    # What others do in between changes nothing.
    mixed = [hit for name, hit in strikes(1, ["Ada", "Bob"] * 50) if name == "Ada"]
    assert mixed == [hit for _, hit in strikes(1, ["Ada"] * 50)]


def test_a_tool_vanishes_by_rate_for_a_while() -> None:
    faults = Faults(1, parse_plan("vanish=0.3"))
    gone = [faults.hidden("mine", tick) for tick in range(0, 2000, VANISHED_TICKS)]
    assert 8 <= sum(gone) <= 40
    first = gone.index(True) * VANISHED_TICKS
    assert all(faults.hidden("mine", first + one) for one in range(VANISHED_TICKS))
    assert not any(faults.hidden("login", tick) for tick in range(2000))


def test_orders_wait_for_the_call_that_fits() -> None:
    faults = Faults(1)
    faults.order(Order("502", tool="mine", username="ada"))
    assert not faults.strike("Ada", "travel")
    assert not faults.strike("Bob", "mine")
    assert faults.strike("Ada", "mine") == {"502"}
    assert not faults.strike("Ada", "mine")
    assert not faults.active


def test_a_plan_in_words() -> None:
    plan = parse_plan("lost-session=0.01, 502=0.02,vanish=get_ship+scan")
    assert plan.rates == {"lost-session": 0.01, "502": 0.02}
    assert plan.gone == {"get_ship", "scan"}
    assert parse_plan("").rates == {}
    assert set(KINDS) == {*STOPPING, *SHAPING, "vanish"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("flood=1", "'flood' is no fault; choose from lost-transport"),
        ("502", "502 needs a rate from 0 to 1"),
        ("502=nan", "502 needs a rate"),
        ("502=1.5", "502 needs a rate"),
        ("text=often", "text needs a rate"),
    ],
)
def test_a_plan_that_is_wrong_is_one_clear_line(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_plan(text)


def test_only_some_kinds_can_strike_once() -> None:
    with pytest.raises(ValueError, match="'vanish' cannot strike once"):
        Faults(1).order(Order("vanish"))
