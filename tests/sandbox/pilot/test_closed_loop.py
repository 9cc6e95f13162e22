"""The pilot plays the sandbox over MCP, under several ways to make its views."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from agents.game.client import connect
from sandbox.game.testing import SandboxServer
from sandbox.game.world.models import Player
from sandbox.pilot.replay import ACTIONS
from tests.sandbox.pilot.closed_loop import Captain, Policy

TICKS = 60
START_CREDITS = 100

POLICIES = {
    "default": Policy(),
    "no state block": Policy(state_block=False),
    "stubs": Policy(options={"prune": "stub"}),
    "everything": Policy("full", state_block=False),
    "four messages": Policy("window", {"window": 4}),
    "one message": Policy("coalesced"),
    "two messages": Policy("window", {"window": 2}),
    "four messages, no block": Policy("window", {"window": 4}, state_block=False),
}


@asynccontextmanager
async def flying(
    sandbox: SandboxServer, name: str = "Ada", policy: Policy | None = None
) -> AsyncIterator[Captain]:
    """A captain with a connection of its own."""
    async with connect(sandbox.url) as connection:
        yield Captain(name, connection, policy or Policy())


async def play(captain: Captain, sandbox: SandboxServer, ticks: int) -> None:
    """One turn per tick."""
    for _ in range(ticks):
        await captain.take_turn()
        sandbox.step()
        captain.pass_ticks()


def player(sandbox: SandboxServer, name: str = "Ada") -> Player:
    """The player as the game itself knows it."""
    players = sandbox.run(lambda: list(sandbox.game.state.players.values()))
    return next(each for each in players if each.username == name)


@pytest.mark.parametrize("name", POLICIES)
async def test_it_earns_its_living_under_any_policy(
    sandbox: SandboxServer, name: str
) -> None:
    async with flying(sandbox, policy=POLICIES[name]) as captain:
        await play(captain, sandbox, TICKS)
    assert player(sandbox).credits > START_CREDITS
    assert captain.worst_repetition() <= 2
    per_turn = [
        len({c.step for c in captain.calls if c.turn == turn})
        for turn in range(1, TICKS + 1)
    ]
    # Registering takes one more, and a tiny window forgets within the turn.
    assert max(per_turn) <= 5


async def test_it_asks_for_nothing_that_is_fresh(sandbox: SandboxServer) -> None:
    async with flying(sandbox) as captain:
        await play(captain, sandbox, 100)
    asked_anyway = [c for c in captain.calls if c.was_fresh]
    # The block shows no ids: a chart that is out of view has to be asked for.
    assert [c.name for c in asked_anyway if c.name != "get_system"] == []


async def test_a_turn_takes_few_model_calls(sandbox: SandboxServer) -> None:
    async with flying(sandbox) as captain:
        await play(captain, sandbox, 100)
    actions = sum(n for tool, n in captain.count().items() if tool in ACTIONS)
    assert len(captain.answers) / actions < 2.5


async def test_everything_it_thinks_is_kept_apart(sandbox: SandboxServer) -> None:
    async with flying(sandbox) as captain:
        await play(captain, sandbox, 3)
    assert all(answer.reasoning for answer in captain.answers)
    assert all(answer.usage.input > answer.usage.output for answer in captain.answers)


async def test_it_obeys_and_goes_on_when_told(sandbox: SandboxServer) -> None:
    async with flying(sandbox) as captain:
        await play(captain, sandbox, 6)
        captain.hear("Stop what you do and dock.")
        said = len(captain.answers)
        await play(captain, sandbox, 8)
        assert "Understood" in captain.answers[said].text
        assert player(sandbox).docked_at
        mined = captain.count()["mine"]
        captain.hear("Go on mining.")
        await play(captain, sandbox, 12)
        assert captain.count()["mine"] > mined
        assert not player(sandbox).docked_at


async def test_it_flies_to_another_system_and_back(sandbox: SandboxServer) -> None:
    async with flying(sandbox) as captain:
        await play(captain, sandbox, 4)
        home = player(sandbox).system_id
        near = sandbox.run(
            lambda: sandbox.game.state.world.systems[home].connections[0]
        )
        captain.hear(f"Fly to {near}.")
        await play(captain, sandbox, 8)
        assert player(sandbox).system_id == near
        captain.hear(f"Go to {home}")
        await play(captain, sandbox, 8)
        assert player(sandbox).system_id == home


async def test_it_refuels_before_it_runs_dry(sandbox: SandboxServer) -> None:
    async with flying(sandbox) as captain:
        await play(captain, sandbox, 6)
        one = player(sandbox)
        sandbox.run(lambda: setattr(one.ship, "fuel", 12))
        captain.cache.snapshots.clear()
        await play(captain, sandbox, 30)
        assert captain.count()["refuel"] >= 1
        assert player(sandbox).ship.fuel > 50


async def test_two_captains_do_not_share_anything(sandbox: SandboxServer) -> None:
    async with flying(sandbox) as ada, flying(sandbox, "Bob") as bob:
        for _ in range(30):
            await ada.take_turn()
            await bob.take_turn()
            sandbox.step()
            ada.pass_ticks()
            bob.pass_ticks()
    assert player(sandbox, "Ada").credits > START_CREDITS
    assert player(sandbox, "Bob").credits > START_CREDITS


@pytest.mark.parametrize("tool", ["get_status", "get_system", "get_cargo"])
async def test_answers_that_it_cannot_read_do_not_trap_it(
    sandbox: SandboxServer, tool: str
) -> None:
    async with flying(sandbox, policy=Policy(state_block=False)) as captain:
        captain.results[tool] = "Ada [solarian] | 500cr | Sol\nHull: 95/95"
        await play(captain, sandbox, 20)
    assert captain.worst_repetition() <= 2
    assert all(sum(c.turn == turn for c in captain.calls) <= 8 for turn in range(1, 21))


async def test_an_error_that_stays_is_not_called_for_ever(
    sandbox: SandboxServer,
) -> None:
    async with flying(sandbox) as captain:
        await play(captain, sandbox, 5)
        captain.results["mine"] = "Error: laser_jammed: The laser is jammed."
        before = captain.count()["mine"]
        await play(captain, sandbox, 12)
    assert captain.count()["mine"] - before <= 4
