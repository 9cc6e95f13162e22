"""The pilot with tools on demand, over strict providers of both formats."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from channels.db import database_sync_to_async as in_db

from agents.models import Mysis
from memory.models import ContextPolicy, Memory
from sandbox.game.testing import SandboxServer
from tests.agents.runtime.conftest import fly
from tests.agents.runtime.logs import assert_paired, log
from tests.agents.runtime.piloted import PilotedAnthropic, PilotedOpenAI
from tests.factories import make_provider
from tests.fakes import anthropic, openai
from tests.long_run import few_or_many

Strict = PilotedOpenAI | PilotedAnthropic
CALLS = few_or_many(30, 50)


@pytest.fixture
def strict(request: pytest.FixtureRequest) -> Iterator[Strict]:
    with request.param() as running:
        yield running


def seat_pilot(mysis: Mysis, strict: Strict, strategy: str) -> None:
    """Let the pilot fly a Mysis from behind a strict provider."""
    kind, key, model = (
        ("openai", openai.KEY, "gpt-5-nano")
        if isinstance(strict, PilotedOpenAI)
        else ("anthropic", anthropic.KEY, "claude-haiku-4-5")
    )
    make_provider(name="strict", kind=kind, base_url=strict.url, key=key)
    options = {"tools": "on_demand"}
    policy = ContextPolicy.objects.create(name="p", strategy=strategy, options=options)
    Mysis.objects.filter(pk=mysis.pk).update(policy=policy, model=f"strict:{model}")


def list_calls(mysis: Mysis) -> list[tuple[str, str]]:
    """The tools that were called, and by way of which."""
    rows = Memory.objects.filter(mysis=mysis, role="assistant").order_by("pk")
    calls = [call for row in rows for call in row.tool_calls]
    return [(call["function"]["name"], call.get("via", "")) for call in calls]


async def fly_calls(ada: Mysis, strict: Strict, game: SandboxServer) -> list[Memory]:
    """Fly, and give the log; nothing was refused by the provider or by the game."""
    while len(strict.requests) < CALLS:
        await fly(ada)
        await asyncio.to_thread(game.step)
    assert strict.refused == []
    rows: list[Memory] = await in_db(log)(ada)
    assert_paired(rows)
    assert [row.content for row in rows if row.is_error] == []
    executed = game.calls("Ada")["by_tool"]["executed"]
    assert executed["travel"] >= 1
    assert executed["mine"] >= 4
    return rows


@pytest.mark.parametrize(
    ("strict", "strategy"),
    [(PilotedOpenAI, "tiered"), (PilotedAnthropic, "coalesced")],
    indirect=["strict"],
)
async def test_grouped_tools_are_read_before_they_are_called(
    ada: Mysis, grouped: SandboxServer, strict: Strict, strategy: str
) -> None:
    await in_db(seat_pilot)(ada, strict, strategy)
    rows = await fly_calls(ada, strict, grouped)
    # What is stored goes by the command.
    names = [row.tool_name for row in rows if row.role == "tool"]
    assert {"game_help", "get_status", "mine", "travel"} <= {*names}
    assert not [name for name in names if name.startswith("spacemolt")]
    calls = await in_db(list_calls)(ada)
    assert {way for name, way in calls if name == "spacemolt"} == {"game"}
    assert {way for name, way in calls if name == "game_help"} == {""}
    # Once in a turn at most, and not while what it told is in view.
    assert names.count("game_help") < CALLS / 5


@pytest.mark.parametrize("strict", [PilotedOpenAI], indirect=True)
async def test_a_history_in_one_message_is_flown(
    ada: Mysis, sandbox: SandboxServer, strict: Strict
) -> None:
    await in_db(seat_pilot)(ada, strict, "coalesced")
    await fly_calls(ada, strict, sandbox)
    calls = await in_db(list_calls)(ada)
    assert "game_help" not in dict(calls), "the list says what they take"
    assert dict(calls)["mine"] == "game"
    assert max(len(each["messages"]) for each in strict.requests) <= 2
