"""Events that nobody will ever read: what they would have told is in doubt."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agents.db import run_in_db
from agents.models import Event, Mysis
from agents.tools import request
from agents.tools.chain import Toolbox, open_toolbox
from agents.tools.snapshot import doubt_call
from agents.tools.unknown_outcomes import lose_events
from memory.gamestate.confidence import Confidence
from memory.gamestate.render import render_block
from memory.gamestate.rows import StateRow
from memory.snapshots import notifications, reads, writes
from sandbox.game.testing import SandboxServer
from tests.memory.capturing import read_state_rows

REGISTER = json.dumps({"username": "Ada Nova", "empire": "solarian"})
READS = ("get_status", "get_ship", "get_cargo", "get_nearby", "get_system", "get_map")


@pytest.fixture
async def box(sandbox: SandboxServer, mysis: Mysis) -> AsyncIterator[Toolbox]:
    """Ada in space by her home, who has just looked at everything."""
    toolbox = await open_toolbox(mysis.pk)
    assert not (await toolbox.call("register", REGISTER)).is_error
    await toolbox.call("undock", "")
    sandbox.step(2)
    await toolbox.call("get_notifications", "")
    for tool in READS:
        assert not (await toolbox.call(tool, "")).is_error
    yield toolbox


async def _rows() -> dict[str, StateRow]:
    return {row.tool: row for row in await run_in_db(read_state_rows, "Ada Nova")}


async def _block() -> str:
    return render_block(await run_in_db(reads.read_account_state, "Ada Nova")).text


async def _told() -> list[dict[str, Any]]:
    kind = Event.objects.filter(kind="snapshot.stale").order_by("id")
    return [event.data async for event in kind]


async def test_a_lost_session_takes_its_events_with_it(
    box: Toolbox, sandbox: SandboxServer
) -> None:
    sandbox.ambush("Ada Nova", "boss")
    sandbox.step(5)
    fought = sandbox.truth("Ada Nova")["snapshots"]["get_ship"]["ship"]
    before = (await _rows())["get_ship"]
    assert before.fields["ship.hull"] is Confidence.FRESH, "nobody has told yet"
    sandbox.strike_once("lost-session", tool="get_notifications")
    assert not (await box.call("get_notifications", "")).is_error
    found = await _rows()
    assert found["get_ship"].fields["ship.hull"] is Confidence.INVALIDATED
    assert fought["hull"] < fought["max_hull"], "the belief was wrong indeed"
    for path in ("player.credits", "player.current_poi", "player.docked_at_base"):
        assert found["get_status"].fields.get(path, "invalidated") == "invalidated"
    for tool in ("get_cargo", "get_nearby", "get_system"):
        assert found[tool].confidence is Confidence.INVALIDATED, tool
    assert found["get_map"].confidence is Confidence.FRESH
    assert found["get_status"].fields["player.username"] is Confidence.FRESH
    block = await _block()
    assert "before the lost session at tick" in block
    assert "call get_ship" in block
    lines = [line for line in await _told() if line["reason"] == "the lost session"]
    assert {line["tool"] for line in lines} == set(READS) - {"get_map"}
    assert {line["confidence"] for line in lines} == {"invalidated"}
    assert not (await box.call("get_ship", "")).is_error
    assert (await _rows())["get_ship"].confidence is Confidence.FRESH


async def test_the_call_that_met_the_lost_session_is_believed(
    box: Toolbox, sandbox: SandboxServer
) -> None:
    sandbox.strike_once("lost-session", tool="get_ship")
    assert not (await box.call("get_ship", "")).is_error
    found = await _rows()
    assert found["get_ship"].confidence is Confidence.FRESH
    assert found["get_cargo"].confidence is Confidence.INVALIDATED


async def test_a_login_by_the_agent_leaves_the_older_queue_unread(box: Toolbox) -> None:
    await box.call("login", json.dumps({"username": "Ada Nova"}))
    assert (await _rows())["get_cargo"].reason == "the lost session"


@pytest.mark.parametrize("fault", ["lost-answer", "text"])
async def test_an_answer_full_of_events_that_is_lost_is_a_doubt(
    box: Toolbox, sandbox: SandboxServer, fault: str
) -> None:
    await box.call("scan", json.dumps({"target_id": "nobody"}))
    sandbox.ambush("Ada Nova")
    sandbox.step(4)
    sandbox.strike_once(fault, tool="get_notifications")
    await box.call("get_notifications", "")
    assert (await _rows())["get_ship"].reason == "lost events"


async def test_an_empty_answer_as_a_text_is_none(
    box: Toolbox, sandbox: SandboxServer
) -> None:
    await box.call("get_notifications", "")
    sandbox.strike_once("text", tool="get_notifications")
    assert "No notifications." in (await box.call("get_notifications", "")).text
    assert (await _rows())["get_ship"].confidence is Confidence.FRESH


async def test_a_queue_that_was_full_has_lost_events(
    box: Toolbox, sandbox: SandboxServer
) -> None:
    player = sandbox.player("Ada Nova")

    def chatter() -> None:
        for session in sandbox.game.state.sessions.of(player.id):
            for number in range(100):
                said: dict[str, Any] = {
                    "id": str(number),
                    "type": "chat",
                    "timestamp": "",
                }
                session.waiting.append(said | {"msg_type": "chat_message", "data": {}})

    sandbox.run(chatter)
    answer = await box.call("get_notifications", "")
    assert not answer.is_error, answer.text
    assert (await _rows())["get_cargo"].reason == "lost events"


async def test_what_a_worker_that_died_had_asked_for_is_lost(
    box: Toolbox, mysis: Mysis
) -> None:
    ask: dict[str, Any] = {"mysis_id": mysis.pk, "username": "Ada Nova", "args": {}}
    await run_in_db(doubt_call, tool="get_cargo", **ask)
    assert (await _rows())["get_cargo"].confidence is Confidence.FRESH
    await run_in_db(doubt_call, tool="get_notifications", **ask)
    assert (await _rows())["get_cargo"].reason == "lost events"


async def test_lost_twice_is_told_once(box: Toolbox, mysis: Mysis) -> None:
    losses = [run_in_db(lose_events, mysis.pk, "Ada Nova") for _ in range(3)]
    await asyncio.gather(*losses)
    lines = [line for line in await _told() if line["reason"] == "lost events"]
    assert len(lines) == len({line["tool"] for line in lines}) == len(READS) - 1


# -- answers that came and could not be stored -----------------------------------


class StoreFailedError(Exception):
    """What no rule has foreseen."""


def _fail(**_: Any) -> None:
    raise StoreFailedError


async def test_events_that_cannot_be_stored_are_lost(
    box: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "merge_notifications", _fail)
    assert not (await box.call("get_notifications", "")).is_error
    assert (await _rows())["get_cargo"].reason == "lost events"
    assert "lost events" in {line["reason"] for line in await _told()}


async def test_an_action_that_cannot_be_marked_is_of_unknown_outcome(
    box: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, tries = writes.invalidate_snapshots, []

    def once(**call: Any) -> Any:
        tries.append(call["result"].is_unknown)
        return real(**call) if len(tries) > 1 else _fail()

    monkeypatch.setattr(writes, "invalidate_snapshots", once)
    assert not (await box.call("dock", "")).is_error
    assert tries == [False, True]
    assert (await _rows())["get_status"].reason == "dock"


async def test_an_answer_that_cannot_be_stored_leaves_the_older_one(
    box: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writes, "capture_snapshot", _fail)
    assert not (await box.call("get_cargo", "")).is_error
    assert (await _rows())["get_cargo"].confidence is Confidence.FRESH


async def test_whoever_is_stopped_while_events_are_stored_knows_them(
    box: Toolbox, sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(**_: Any) -> None:
        begun.set()
        go_on.wait(30)
        raise StoreFailedError

    monkeypatch.setattr(notifications, "merge_notifications", slow)
    call = asyncio.ensure_future(box.call("get_notifications", ""))
    assert await asyncio.to_thread(begun.wait, 30)
    call.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (await _rows())["get_cargo"].reason == "lost events"


async def test_a_call_that_fails_as_nobody_foresaw_is_lost(
    box: Toolbox, sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(*_: Any, **__: Any) -> None:
        raise StoreFailedError

    monkeypatch.setattr(request, "read_result", unreadable)
    with pytest.raises(StoreFailedError):
        await box.call("get_notifications", "")
    assert (await _rows())["get_cargo"].reason == "lost events"
