"""The life-cycle table of GAME_STATE.md section 2, row by row, against the sandbox."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from agents.db import run_in_db
from agents.models import Account, Event, Mysis
from agents.tools.chain import Toolbox, open_toolbox
from agents.tools.request import Outcome
from agents.tools.snapshot import announce_aged
from memory.gamestate import effects, invalidation
from memory.gamestate.confidence import Confidence
from memory.gamestate.render import render_block
from memory.gamestate.rows import StateRow
from memory.models import AccountClock, GameSnapshot
from memory.snapshots import reads
from sandbox.game.testing import SandboxServer
from tests.memory.capturing import read_state_rows

ADA, SECOND = "Ada Nova", "Second"


@pytest.fixture
async def box(sandbox: SandboxServer, mysis: Mysis) -> AsyncIterator[Toolbox]:
    """Ada, docked at home."""
    toolbox = await open_toolbox(mysis.pk)
    registered = await _call(toolbox, "register", username=ADA, empire="solarian")
    assert not registered.is_error
    yield toolbox


async def _call(box: Toolbox, tool: str, **arguments: Any) -> Outcome:
    return await box.call(tool, json.dumps(arguments))


async def _rows(username: str = ADA) -> dict[str, StateRow]:
    return {row.tool: row for row in await run_in_db(read_state_rows, username)}


async def _block(username: str | None) -> str:
    return render_block(await run_in_db(reads.read_account_state, username)).text


async def _stale() -> list[dict[str, Any]]:
    kind = Event.objects.filter(kind="snapshot.stale").order_by("id")
    return [event.data async for event in kind]


async def test_a_successful_snapshot_call_is_stored_and_takes_the_marks_away(
    box: Toolbox, sandbox: SandboxServer
) -> None:
    await _call(box, "get_cargo")
    await _call(box, "buy", item_id="ore_iron", quantity=1)
    assert (await _rows())["get_cargo"].confidence is Confidence.INVALIDATED
    sandbox.step(3)
    await _call(box, "get_notifications")
    await _call(box, "get_cargo")
    row = await GameSnapshot.objects.aget(tool_name="get_cargo")
    assert (row.stale_reason, row.marks, row.field_ticks) == ("", [], {})
    assert (await _rows())["get_cargo"].confidence is Confidence.FRESH
    truth = sandbox.truth(ADA)["snapshots"]["get_cargo"]
    assert json.loads(row.content) == truth


async def test_a_registration_begins_empty(box: Toolbox) -> None:
    assert await _rows() == {}
    assert "**Last Updated:** never; call get_status" in await _block(ADA)
    assert await _block(None) == "Not logged in. Use register or login."


async def test_a_login_as_another_leaves_the_rows_of_the_first_untouched_and_unseen(
    box: Toolbox, sandbox: SandboxServer, mysis: Mysis, other: Mysis
) -> None:
    await _call(box, "get_cargo")
    before = await GameSnapshot.objects.filter(username=ADA).values().aget()
    theirs = await open_toolbox(other.pk)
    await _call(theirs, "register", username=SECOND, empire="solarian")
    await _call(theirs, "get_ship")
    await _give(SECOND, mysis)
    assert not (await _call(box, "login", username=SECOND)).is_error
    assert box.username == SECOND
    assert set(await _rows(SECOND)) == {"get_ship"}
    assert await GameSnapshot.objects.filter(username=ADA).values().aget() == before
    assert not (await _call(box, "login", username=ADA)).is_error
    assert set(await _rows()) == {"get_cargo"}


async def _give(username: str, mysis: Mysis) -> None:
    account = await Account.objects.aget(username=username)
    await Mysis.objects.filter(account=account).aupdate(account=None)
    account.assigned_to = mysis
    await account.asave()


async def test_a_logout_empties_the_list_and_deletes_no_row(box: Toolbox) -> None:
    await _call(box, "get_cargo")
    await _call(box, "logout")
    assert await _rows() == {}
    assert await GameSnapshot.objects.acount() == 1
    await _call(box, "login", username=ADA)
    row = (await _rows())["get_cargo"]
    assert (row.confidence, row.reason) == (Confidence.STALE, "captured before logout")


async def test_a_queued_action_stays_a_doubt_until_it_has_resolved(
    box: Toolbox, sandbox: SandboxServer
) -> None:
    await _call(box, "get_notifications")
    await _call(box, "get_status")
    await _call(box, "get_map")
    answer = await _call(box, "undock")
    assert json.loads(answer.text).get("queued"), answer.text
    early = (await _rows())["get_status"]
    assert early.fields["player.docked_at_base"] is Confidence.INVALIDATED
    assert early.fields["player.credits"] is Confidence.FRESH
    # The answer to a question that comes before the tick is the old truth.
    await _call(box, "get_status")
    early = (await _rows())["get_status"]
    assert early.fields["player.docked_at_base"] is Confidence.INVALIDATED
    sandbox.step(3)
    await _call(box, "get_notifications")
    await _call(box, "get_status")
    rows = await _rows()
    assert rows["get_status"].confidence is Confidence.FRESH
    assert rows["get_map"].confidence is Confidence.FRESH
    [line] = [line for line in await _stale() if line["tool"] == "get_status"]
    assert (line["reason"], line["confidence"]) == ("undock", "invalidated")
    assert "player.docked_at_base" in line["fields"]


async def test_a_refused_action_changes_nothing(
    box: Toolbox, sandbox: SandboxServer
) -> None:
    await _call(box, "get_status")
    assert (await _call(box, "mine")).is_error
    sandbox.step(2)
    assert (await _rows())["get_status"].confidence is Confidence.FRESH
    assert await _stale() == []


async def test_an_unknown_action_makes_everything_stale(
    box: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that has never heard of an action that the server has."""
    unheard = {k: v for k, v in effects.ACTIONS.items() if k != "undock"}
    monkeypatch.setattr(invalidation, "ACTIONS", unheard)
    for tool in ("get_status", "get_map", "get_version", "get_skills"):
        await _call(box, tool)
    await _call(box, "undock")
    levels = {row.confidence for row in (await _rows()).values()}
    assert levels == {Confidence.INVALIDATED}
    assert {line["tool"] for line in await _stale()} == set(await _rows())


async def test_age_makes_a_fact_ageing_then_stale_and_each_is_told(
    box: Toolbox,
) -> None:
    await _call(box, "get_notifications")
    await _call(box, "get_nearby")
    told = []
    for ticks in (2, 6):
        ago = timezone.now() - timedelta(seconds=10 * ticks + 1)
        await AccountClock.objects.aupdate(seen_at=ago)
        await run_in_db(announce_aged)
        told.append((await _rows())["get_nearby"].confidence)
    assert told == [Confidence.AGEING, Confidence.STALE]
    assert [line["confidence"] for line in await _stale()] == ["ageing", "stale"]
    assert {line["account"] for line in await _stale()} == {ADA}


async def test_a_death_makes_everything_stale(
    box: Toolbox, sandbox: SandboxServer
) -> None:
    await _call(box, "undock")
    sandbox.step(2)
    await _call(box, "get_notifications")
    tools = ("get_status", "get_cargo", "get_map", "get_skills")
    for tool in tools:
        await _call(box, tool)
    sandbox.ambush(ADA, "boss")
    for _ in range(30):
        sandbox.step()
        answer = await _call(box, "get_notifications")
        if "player_died" in answer.text:
            break
    rows = await _rows()
    for tool in tools:
        assert rows[tool].confidence is Confidence.INVALIDATED, tool
        assert rows[tool].reason is not None
    assert {line["reason"] for line in await _stale()} >= {"player_died"}


async def test_a_first_answer_while_an_action_is_under_way_is_told_as_a_doubt(
    box: Toolbox,
) -> None:
    await _call(box, "get_notifications")
    await _call(box, "undock")
    assert await _stale() == []
    for _ in range(2):
        await _call(box, "get_status")
    [line] = await _stale()
    assert (line["tool"], line["reason"]) == ("get_status", "undock")
    assert "player.docked_at_base" in line["fields"]
