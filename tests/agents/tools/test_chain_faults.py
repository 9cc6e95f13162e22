"""The whole chain before servers that fail."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from asgiref.sync import ThreadSensitiveContext

from agents.db import run_in_db
from agents.game.client import GameUnreachableError
from agents.models import Account, Event, Mysis
from agents.tools.chain import open_toolbox
from tests.agents.game.faulty import FaultyServer, Json, Reply, http, result, rpc_error
from tests.factories import make_mysis

REGISTER = json.dumps({"username": "Ada Nova", "empire": "solarian"})


async def _events(kind: str) -> list[dict[str, Any]]:
    return [e.data async for e in Event.objects.filter(kind=kind).order_by("id")]


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


async def test_an_error_inside_the_server_leaves_open_what_an_action_did(
    faulty: FaultyServer, mysis: Mysis
) -> None:
    """A read that fails there is refused: it changed nothing."""
    box = await open_toolbox(mysis.pk)
    faulty.plan.extend([rpc_error(-32603, "Internal error")] * 2)
    lost = await box.call("mine", "")
    assert lost.text.startswith("Error: outcome_unknown: ")
    read = await box.call("get_status", "")
    assert (read.text, read.is_error) == ("Error: Internal error", True)
    assert [name for name, _ in faulty.calls].count("mine") <= 1


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
    assert faulty.calls == [("get_status", {})] * 3


async def test_a_stopped_turn_aborts_its_call_and_leaves_the_session_usable(
    faulty: FaultyServer, mysis: Mysis
) -> None:
    box = await open_toolbox(mysis.pk)
    held = asyncio.Event()
    faulty.plan.append(lambda _: Reply(hold=held))
    stopped = asyncio.create_task(box.call("mine", ""))
    await asyncio.wait_for(faulty.called.wait(), 60)
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
    await asyncio.wait_for(faulty.called.wait(), 60)
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
    assert (box.tools["help"].spec.policy, box.tools["get_rich"].spec.policy) == (
        "query",
        "mutation",
    )
    assert (box.tools["warp"].spec.policy, box.tools["get_commands"].spec.policy) == (
        "mutation",
        "snapshot",
    )
    await open_toolbox(mysis.pk)
    assert [name for name, _ in faulty.calls] == ["get_commands"]


async def test_no_connection_to_the_database_is_held_while_the_game_is_awaited(
    faulty: FaultyServer, transactional_db: Any
) -> None:
    all_called = asyncio.Event()

    def answer(message: Json) -> Reply:
        if len(faulty.calls) == len(myses):
            all_called.set()
        return Reply(200, result("ok")(message).body, hold=all_called)

    faulty.plan.extend([answer] * 24)
    myses = [await run_in_db(make_mysis) for _ in range(24)]

    async def play(mysis: Mysis) -> str:
        async with ThreadSensitiveContext():
            box = await open_toolbox(mysis.pk)
            return (await box.call("mine", "")).text

    assert await asyncio.gather(*(play(mysis) for mysis in myses)) == ["ok"] * 24


async def test_odd_arguments_never_break_a_call(
    faulty: FaultyServer, mysis: Mysis
) -> None:
    schema = {"type": "object", "additionalProperties": True}
    faulty.tools = [{"name": "get_odd", "inputSchema": schema}]
    box = await open_toolbox(mysis.pk)
    odd = (
        r'{"entry": "\ud800 \u0000 x"}',
        '{"entry": "\ud800\x00"}',
        '{"entry": ' + "[" * 900 + "]" * 900 + "}",
        '{"entry": 1e999}',
        '{"entry": ' + "9" * 5000 + "}",
        '{"\\u0000": 1}',
    )
    for raw in odd:
        await box.call("get_odd", raw)
        await box.call("zoea_search_messages", raw.replace("entry", "query"))
        await box.call("\ud800\x00", raw)
    assert len(await _events("tool.called")) == 3 * len(odd)


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
