"""What is repeated, and what is never."""

from __future__ import annotations

import pytest

from agents.game.client import (
    GameCallError,
    GameTool,
    GameUnreachableError,
    RateLimitedError,
    ReplyLostError,
)
from agents.tools.catalogue import build_tools
from agents.tools.request import Outcome, Request, ToolSession
from agents.tools.transport import may_repeat, retry

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
