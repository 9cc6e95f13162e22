"""An action whose reply was lost: looked into by code, held back until that told."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django import Settings

from agents.models import Event, Mysis, UnknownOutcome
from agents.tools import unknown_outcomes
from agents.tools.chain import Toolbox, open_toolbox
from agents.tools.request import Unknown
from agents.tools.unknown_outcomes import Read
from sandbox.game.testing import SandboxServer

REGISTER = json.dumps({"username": "Ada Nova", "empire": "solarian"})
SELL = json.dumps({"item_id": "ore_iron", "quantity": 1})


@pytest.fixture
async def box(sandbox: SandboxServer, mysis: Mysis) -> AsyncIterator[Toolbox]:
    """Ada, registered and docked at home; the tick is known."""
    toolbox = await open_toolbox(mysis.pk)
    assert not (await toolbox.call("register", REGISTER)).is_error
    await told_the_tick(toolbox)
    yield toolbox


async def told_the_tick(box: Toolbox) -> None:
    """In this era only the events name the tick."""
    assert not (await box.call("get_notifications", "{}")).is_error


def undocked(sandbox: SandboxServer) -> int:
    """How many undocks the game itself has taken in."""
    writes = sandbox.writes().get("Ada Nova", [])
    return sum(write.tool == "undock" for write in writes)


@pytest.mark.parametrize(("fault", "happened"), [("lost-answer", 1), ("502", 0)])
async def test_a_lost_action_is_read_and_held_back_until_a_read_tells(
    box: Toolbox, sandbox: SandboxServer, fault: str, happened: int
) -> None:
    sandbox.strike_once(fault, tool="undock")
    lost = await box.call("undock", "{}")
    assert lost.is_error
    assert lost.text.startswith("Error: outcome_unknown: ")
    assert "get_status says now" in lost.text
    assert "player.docked_at_base" in lost.text
    assert undocked(sandbox) == happened
    # It may happen at a tick yet: the same is not sent, another call is.
    again = await box.call("undock", "")
    assert again.text.startswith("Error: not_verified: Not executed")
    assert "get_status" in again.text
    assert undocked(sandbox) == happened
    assert not (await box.call("get_ship", "{}")).is_error
    assert [one.tool for one in box.unknown] == ["undock"]
    sandbox.step(3)
    await told_the_tick(box)
    assert box.unknown, "events are not what tells"
    await box.call("get_status", "{}")
    assert not box.unknown
    assert not await UnknownOutcome.objects.aexists()
    # Now it goes to the game, which says no where the ship has left already.
    assert "not_verified" not in (await box.call("undock", "{}")).text
    assert undocked(sandbox) == 1


async def test_the_repetition_itself_reads_what_is_known_by_now(
    box: Toolbox, sandbox: SandboxServer
) -> None:
    sandbox.strike_once("lost-answer", tool="undock")
    await box.call("undock", "{}")
    sandbox.step(3)
    await told_the_tick(box)
    again = await box.call("undock", "{}")
    assert again.text.startswith("Error: not_verified: ")
    assert "get_status says now" in again.text
    assert undocked(sandbox) == 1
    assert not box.unknown
    assert "not_verified" not in (await box.call("undock", "{}")).text


async def test_a_read_that_fails_tells_nothing(
    box: Toolbox, sandbox: SandboxServer, mysis: Mysis
) -> None:
    sandbox.strike_once("502", tool="undock")
    await box.call("undock", "{}")
    sandbox.step(3)
    await told_the_tick(box)
    sandbox.set_faults("502=1")
    again = await box.call("undock", "{}")
    assert again.text.startswith("Error: not_verified: ")
    assert "Call get_status" in again.text
    sandbox.set_faults("")
    # Another process knows of it too, and others than the same call pass.
    other = await open_toolbox(mysis.pk)
    assert [one.tool for one in other.unknown] == ["undock"]
    assert "not_verified" not in (await other.call("sell", SELL)).text
    assert "not_verified" in (await other.call("undock", "{}")).text


async def test_the_read_is_no_call_of_the_model(
    box: Toolbox, sandbox: SandboxServer
) -> None:
    before = await Event.objects.filter(kind="tool.called").acount()
    sandbox.strike_once("502", tool="undock")
    await box.call("undock", "{}")
    assert await Event.objects.filter(kind="tool.called").acount() == before + 1


def test_an_answer_is_told_by_the_fields_that_tell() -> None:
    long = {"player": {"credits": 7, "name": "x" * 200}, "cargo": list(range(90))}
    read = Read("get_status", {}, ("player.credits", "player.gone", "cargo", "a.b"))
    told = read.told(json.dumps(long), 12)
    assert told.startswith(
        "get_status says now at tick 12: player.credits 7, player.gone null, cargo [0,"
    )
    assert "a.b" not in told
    assert len(told) < 300
    assert Read("get_log", {}, ()).told("a\n b", None) == "get_log says now: a b."


def test_from_when_on_a_read_shows_the_outcome(settings: Settings) -> None:
    settings.ZOEA_SECONDS_PER_TICK = 10
    now = timezone.now()
    one = Unknown(1, "mine", {}, now, tick=9_000)
    assert not unknown_outcomes.shows_outcome(one, 8_999, now)
    assert unknown_outcomes.shows_outcome(one, 9_000, now)
    assert unknown_outcomes.shows_outcome(one, 12, now), "the counter was set back"
    timed = replace(one, tick=None)
    assert not unknown_outcomes.shows_outcome(timed, 9_000, now + timedelta(seconds=19))
    assert unknown_outcomes.shows_outcome(timed, None, now + timedelta(seconds=20))
