"""The fleet as a Mysis sees it, and what it may say to others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agents import actions
from agents.db import run_in_db
from agents.models import Broadcast, Mysis
from agents.tools.chain import open_toolbox
from memory.models import Memory
from tests.agents.game.faulty import FaultyServer
from tests.factories import make_mysis

pytestmark = pytest.mark.usefixtures("faulty")


async def call(mysis: Mysis, tool: str, **arguments: Any) -> dict[str, Any]:
    box = await open_toolbox(mysis.pk)
    answer = await box.call(tool, json.dumps(arguments))
    assert not answer.is_error, answer.text
    return dict(json.loads(answer.text))


async def refused(mysis: Mysis, tool: str, **arguments: Any) -> str:
    box = await open_toolbox(mysis.pk)
    answer = await box.call(tool, json.dumps(arguments))
    assert answer.is_error
    return answer.text


async def _outgoing(mysis: Mysis) -> None:
    mysis.messaging = True
    await mysis.asave()


async def test_the_status_counts_states(mysis: Mysis, other: Mysis) -> None:
    await run_in_db(make_mysis, state="errored")
    found = await call(mysis, "zoea_swarm_status")
    assert found["counts"] == {"idle": 2, "running": 0, "stopped": 0, "errored": 1}
    assert found["total"] == 3


async def test_the_list_names_all_and_tells_no_ones_business(
    mysis: Mysis, other: Mysis
) -> None:
    """I27."""
    other.last_error, other.activity = "Bob's trouble", "calling attack"
    await other.asave()
    found = await call(mysis, "zoea_list_myses")
    assert [(line["name"], line["is_you"]) for line in found["myses"]] == [
        ("Ada", True),
        ("Bob", False),
    ]
    assert set(found["myses"][1]) == {"id", "name", "state", "account", "is_you"}
    first = await call(mysis, "zoea_list_myses", limit=1)
    assert [line["name"] for line in first["myses"]] == ["Ada"]
    rest = await call(mysis, "zoea_list_myses", after=first["next"])
    assert [line["name"] for line in rest["myses"]] == ["Bob"]
    assert (rest["next"], rest["total"]) == (None, 2)


async def test_sending_is_offered_only_where_it_is_allowed(
    mysis: Mysis, other: Mysis, faulty: FaultyServer
) -> None:
    await _outgoing(other)
    for owner, may in ((mysis, False), (other, True)):
        box = await open_toolbox(owner.pk)
        names = {spec.name for spec in box.specs}
        assert {"zoea_recall", "zoea_swarm_status", "zoea_list_myses"} <= names
        assert ({"zoea_send_message", "zoea_broadcast"} <= names) is may
    said = await refused(mysis, "zoea_send_message", mysis_id="Bob", message="hi")
    assert "no tool" in said
    assert faulty.calls == []


async def test_a_message_says_who_wrote_it_and_wakes(
    mysis: Mysis, other: Mysis
) -> None:
    await _outgoing(mysis)
    sent = await call(mysis, "zoea_send_message", mysis_id="Bob", message="Ore here.")
    assert sent["to"] == "Bob"
    row = await Memory.objects.aget(pk=sent["memory_id"])
    assert (row.mysis_id, row.sender) == (other.pk, "mysis:Ada")
    assert row.content == "[From Mysis Ada] Ore here."
    await other.arefresh_from_db()
    assert other.state == Mysis.State.RUNNING


async def test_what_cannot_be_sent_is_an_error_result(
    mysis: Mysis, other: Mysis
) -> None:
    await _outgoing(mysis)
    tool = "zoea_send_message"
    assert "yourself" in await refused(mysis, tool, mysis_id="Ada", message="x")
    assert "no Mysis 'Eve'" in await refused(mysis, tool, mysis_id="Eve", message="x")
    assert "empty" in await refused(mysis, tool, mysis_id="Bob", message="  ")
    await run_in_db(actions.stop_mysis, mysis=other, by="test")
    assert "stopped" in await refused(mysis, tool, mysis_id="Bob", message="x")
    assert "empty" in await refused(mysis, "zoea_broadcast", message="")
    assert not await Memory.objects.aexists()


async def test_a_broadcast_reaches_the_others_and_is_nobodys_command(
    mysis: Mysis, other: Mysis
) -> None:
    await _outgoing(mysis)
    sent = await call(mysis, "zoea_broadcast", message="Pirates at Sol.")
    assert sent["recipients"] == 1
    row = await Broadcast.objects.aget(pk=sent["broadcast_id"])
    assert (row.from_mysis, row.mysis_id) == (True, mysis.pk)
    (got,) = [memory async for memory in Memory.objects.all()]
    assert (got.mysis_id, got.content) == (
        other.pk,
        "[From Mysis Ada] Pirates at Sol.",
    )
