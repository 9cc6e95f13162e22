"""What is repeated, and what is never."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from django.db import OperationalError
from django.utils import timezone
from pytest_django import Settings

from agents.game.client import (
    GameCallError,
    GameTool,
    GameUnreachableError,
    RateLimitedError,
    ReplyLostError,
)
from agents.models import Event, Mysis, UnknownOutcome
from agents.tools import snapshot, transport, unknown_outcomes
from agents.tools.catalogue import build_tools
from agents.tools.chain import Toolbox, open_toolbox
from agents.tools.request import Outcome, Request, ToolSession
from agents.tools.transport import may_repeat, retry
from agents.tools.unknown_outcomes import Read
from sandbox.game.testing import SandboxServer
from tests.agents.game.faulty import FaultyServer, result


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that calls waited for the game; nobody waits here."""
    waits: list[float] = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(transport, "wait_for_pace", wait)
    return waits


TOOLS = build_tools(
    [
        GameTool("get_ship", "", {}, read_only=True),
        GameTool("get_cargo", "", {}),
        GameTool("get_notifications", "", {}),
        GameTool("mine", "", {}, read_only=False),
        GameTool("captains_log_add", "", {}),
        GameTool("help", "", {}, read_only=True),
        GameTool("login", "", {}, read_only=False),
        GameTool("register", "", {}, read_only=False),
    ],
    {"captains_log_add": False},
)
LOST = ReplyLostError("The game server broke off its answer.")
AWAY = GameUnreachableError("The game server cannot be reached.")


async def _tried(
    name: str, *failures: GameCallError
) -> tuple[Outcome | GameCallError, int]:
    waiting, tries = list(failures), 0

    async def call_next(_: Request) -> Outcome:
        nonlocal tries
        tries += 1
        if waiting:
            raise waiting.pop(0)
        return Outcome(("done",))

    try:
        return await retry(Request(ToolSession(1, TOOLS), name), call_next), tries
    except GameCallError as error:
        return error, tries


@pytest.mark.parametrize(
    "name", ["get_ship", "get_cargo", "get_notifications", "help", "login"]
)
async def test_a_read_is_repeated_twice(name: str) -> None:
    outcome, tries = await _tried(name, LOST, LOST)
    assert (outcome, tries) == (Outcome(("done",)), 3)
    error, tries = await _tried(name, LOST, LOST, LOST)
    assert isinstance(error, GameUnreachableError)
    assert tries == 3


@pytest.mark.parametrize("name", ["mine", "captains_log_add", "register", "unheard"])
async def test_what_may_have_been_executed_is_not_repeated(name: str) -> None:
    outcome, tries = await _tried(name, LOST)
    assert isinstance(outcome, Outcome)
    assert tries == 1
    assert outcome.is_error
    assert "outcome_unknown" in outcome.text
    assert ("register again" if name == "register" else "get_status") in outcome.text


async def test_an_action_that_was_surely_not_sent_is_repeated() -> None:
    assert await _tried("mine", AWAY, AWAY) == (Outcome(("done",)), 3)
    error, tries = await _tried("mine", AWAY, AWAY, AWAY)
    assert isinstance(error, GameUnreachableError)
    assert (error.detail, tries) == (AWAY.detail, 3)


async def test_an_action_whose_repetition_is_lost_is_not_repeated_again() -> None:
    outcome, tries = await _tried("mine", AWAY, LOST)
    assert isinstance(outcome, Outcome)
    assert ("outcome_unknown" in outcome.text, tries) == (True, 2)


async def test_a_limit_that_stays_is_an_error_result_with_the_wait() -> None:
    slow = RateLimitedError("The game server asks to wait.", 0.0)
    assert await _tried("mine", slow) == (Outcome(("done",)), 2)
    late = RateLimitedError("The game server asks to wait.", 40.0)
    outcome, tries = await _tried("mine", slow, slow, late)
    assert isinstance(outcome, Outcome)
    assert tries == 3
    assert outcome.text == (
        "Error: rate_limited: The game server takes no more calls now. "
        "Try again in 40 seconds."
    )


async def test_nobody_calls_before_the_game_allows_it() -> None:
    """A wait that is too long for a call ends it, and is told."""
    outcome, tries = await _tried("mine", RateLimitedError("Wait.", 300.0))
    assert isinstance(outcome, Outcome)
    assert (tries, "in 300 seconds" in outcome.text) == (1, True)
    shut = GameUnreachableError("No more sessions.", retry_after=300.0)
    error, tries = await _tried("mine", shut)
    assert isinstance(error, GameUnreachableError)
    assert (tries, error.retry_after) == (1, 300.0)


def test_an_unknown_tool_is_never_repeated() -> None:
    assert not may_repeat(Request(ToolSession(1, TOOLS), "unheard"))


# --- An action whose reply was lost: looked into by code, held back until that told.

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


async def test_an_action_stays_held_back_until_what_shows_it_is_stored(
    box: Toolbox, sandbox: SandboxServer, mysis: Mysis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a worker that dies in between would let the same be sent again unchecked."""
    sandbox.strike_once("lost-answer", tool="undock")
    await box.call("undock", "{}")
    sandbox.step(3)
    await told_the_tick(box)

    def lost(*_: object) -> None:
        raise OperationalError("the connection is lost")

    with monkeypatch.context() as broken:
        broken.setattr(snapshot, "_store_answer", lost)
        await box.call("get_status", "{}")
    other = await open_toolbox(mysis.pk)
    assert [one.tool for one in other.unknown] == ["undock"]


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
    told = read.describe_answer(json.dumps(long), 12)
    assert told.startswith(
        "get_status says now at tick 12: player.credits 7, player.gone null, cargo [0,"
    )
    assert "a.b" not in told
    assert len(told) < 300
    assert (
        Read("get_log", {}, ()).describe_answer("a\n b", None)
        == "get_log says now: a b."
    )


def test_from_when_on_a_read_shows_the_outcome(settings: Settings) -> None:
    settings.ZOEA_SECONDS_PER_TICK = 10
    now = timezone.now()
    one = UnknownOutcome(tool="mine", created_at=now, tick=9_000)
    assert not unknown_outcomes.shows_outcome(one, 8_999, now)
    assert unknown_outcomes.shows_outcome(one, 9_000, now)
    assert unknown_outcomes.shows_outcome(one, 12, now), "the counter was set back"
    timed = UnknownOutcome(tool="mine", created_at=now)
    assert not unknown_outcomes.shows_outcome(timed, 9_000, now + timedelta(seconds=19))
    assert unknown_outcomes.shows_outcome(timed, None, now + timedelta(seconds=20))


async def test_the_game_paces_the_next_action_and_no_query(
    faulty: FaultyServer, mysis: Mysis, slept: list[float]
) -> None:
    box = await open_toolbox(mysis.pk)
    words = "Error: rate_limited: One action per tick. Try again in 47 seconds."
    faulty.plan.append(result(words, is_error=True))
    assert (await box.call("mine", "")).is_error
    await box.call("get_status", "")
    assert slept == []
    await box.call("mine", "")
    assert len(slept) == 1
    # Counted from the answer: what was done meanwhile took its time.
    assert 37 < slept[0] <= 47


async def test_a_throttled_query_waits_and_not_the_actions(
    faulty: FaultyServer, mysis: Mysis, slept: list[float]
) -> None:
    box = await open_toolbox(mysis.pk)
    faulty.plan.append(result('{"throttled": true, "retry_after": 45}'))
    assert (await box.call("get_status", "")).is_error
    await box.call("mine", "")
    assert slept == []
    await box.call("get_status", "")
    assert 35 < slept[0] <= 45


async def test_a_longer_wait_is_told_and_nothing_is_sent(
    faulty: FaultyServer, mysis: Mysis, slept: list[float]
) -> None:
    box = await open_toolbox(mysis.pk)
    words = "Error: rate_limited: Too much. Try again in 300 seconds."
    faulty.plan.append(result(words, is_error=True))
    await box.call("mine", "")
    sent = len(faulty.calls)
    refused = await box.call("mine", "")
    assert refused.text.startswith("Error: rate_limited: ")
    assert (len(faulty.calls), slept) == (sent, [])
