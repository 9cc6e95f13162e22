"""Events on their way from a real game into the snapshots, and what is told of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from agents.db import run_in_db
from agents.models import Event, Mysis
from agents.tools.chain import Toolbox, open_toolbox
from agents.tools.snapshot import announce_aged
from memory.gamestate.confidence import Confidence
from memory.models import AccountClock
from memory.snapshots import reads
from sandbox.game.testing import SandboxServer
from tests.memory.capturing import read_state_rows

REGISTER = json.dumps({"username": "Ada Nova", "empire": "solarian"})


@pytest.fixture
async def box(sandbox: SandboxServer, mysis: Mysis) -> AsyncIterator[Toolbox]:
    """Ada at the belt next to her home."""
    toolbox = await open_toolbox(mysis.pk)
    assert not (await toolbox.call("register", REGISTER)).is_error
    await toolbox.call("undock", "")
    sandbox.step()
    await toolbox.call("get_notifications", "")
    system = json.loads((await toolbox.call("get_system", "")).text)
    belt = next(p for p in system["pois"] if p["type"] == "asteroid_belt")
    flight = await toolbox.call("travel", json.dumps({"target_poi": belt["id"]}))
    sandbox.step(json.loads(flight.text)["ticks"])
    await toolbox.call("get_notifications", "")
    yield toolbox


async def _events(kind: str) -> list[dict[str, Any]]:
    return [e.data async for e in Event.objects.filter(kind=kind).order_by("id")]


async def _shown(tool: str) -> Any:
    found = await run_in_db(reads.read_account_state, "Ada Nova")
    return next(s.current for s in found.snapshots if s.tool == tool)


async def _row(tool: str) -> Any:
    rows = await run_in_db(read_state_rows, "Ada Nova")
    return next(row for row in rows if row.tool == tool)


async def test_what_was_mined_is_known_without_asking(
    box: Toolbox, sandbox: SandboxServer
) -> None:
    for tool in ("get_cargo", "get_status", "get_poi"):
        await box.call(tool, "")
    for _ in range(3):
        await box.call("mine", "")
        sandbox.step()
        assert not (await box.call("get_notifications", "")).is_error
    hold, status, poi = [
        await _shown(t) for t in ("get_cargo", "get_status", "get_poi")
    ]
    row = await _row("get_cargo")
    # The truth comes last: asking would make the cache right by itself.
    for tool, believed in (("get_cargo", hold), ("get_poi", poi)):
        truth = json.loads((await box.call(tool, "")).text)
        for path in ("used", "available"):
            assert believed.get(path) == truth.get(path)
        stock = {i["item_id"]: i["quantity"] for i in truth.get("cargo", [])}
        assert {i["item_id"]: i["quantity"] for i in believed.get("cargo", [])} == stock
    truth = json.loads((await box.call("get_status", "")).text)
    assert status["ship"]["cargo_used"] == truth["ship"]["cargo_used"] > 0
    assert (
        status["player"]["stats"]["ore_mined"] == truth["player"]["stats"]["ore_mined"]
    )
    assert row.confidence is Confidence.MERGED
    assert set(row.fields.values()) <= {Confidence.MERGED, Confidence.FRESH}


async def test_an_answer_that_holds_the_outcome_is_not_counted_again(
    box: Toolbox, sandbox: SandboxServer
) -> None:
    await box.call("mine", "")
    sandbox.step()
    truth = json.loads((await box.call("get_cargo", "")).text)
    await box.call("get_notifications", "")
    assert (await _shown("get_cargo")) == truth


async def test_an_arrival_moves_the_ship_and_leaves_what_was_seen_in_doubt(
    box: Toolbox, sandbox: SandboxServer
) -> None:
    for tool in ("get_status", "get_nearby"):
        await box.call(tool, "")
    system = json.loads((await box.call("get_system", "")).text)
    station = next(p for p in system["pois"] if p["type"] == "station")
    flight = await box.call("travel", json.dumps({"target_poi": station["id"]}))
    sandbox.step(json.loads(flight.text)["ticks"])
    await box.call("get_notifications", "")
    status = await _shown("get_status")
    assert status["player"]["current_poi"] == station["id"]
    fields = (await _row("get_status")).fields
    assert fields["player.current_poi"] is Confidence.MERGED
    assert fields["ship.fuel"] is Confidence.INVALIDATED
    assert (await _row("get_nearby")).confidence is Confidence.INVALIDATED


async def test_growing_old_is_told_once(box: Toolbox, mysis: Mysis) -> None:
    await box.call("get_nearby", "")
    before = len(await _events("snapshot.stale"))
    assert await run_in_db(announce_aged) == 0
    await AccountClock.objects.aupdate(seen_at=timezone.now() - timedelta(seconds=25))
    assert await run_in_db(announce_aged, mysis.pk) == 1
    told = await asyncio.gather(
        run_in_db(announce_aged), run_in_db(announce_aged, mysis.pk)
    )
    assert list(told) == [0, 0]
    [line] = (await _events("snapshot.stale"))[before:]
    assert (line["tool"], line["fields"], line["confidence"]) == (
        "get_nearby",
        [],
        "ageing",
    )
    assert line["reason"].endswith(" ticks old")
