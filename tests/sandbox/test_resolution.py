"""Era A: one action per tick, its outcome at a tick, refusals for free."""

from __future__ import annotations

import asyncio

import pytest

from sandbox.game.config import GameError
from sandbox.game.game import Game
from sandbox.game.gate import MOST_HELD_EACH, Turns
from tests.sandbox.captains import Captain


def test_a_second_action_in_a_tick_is_too_early(captain: Captain) -> None:
    captain.call("undock")
    refusal = captain.refused("travel", target_poi="sol_belt")
    assert refusal.code == "rate_limited"
    assert refusal.wait_seconds == 10
    captain.game.step()
    assert captain.call("travel", target_poi="sol_belt")["queued"] is True


def test_a_refused_action_costs_no_tick(captain: Captain) -> None:
    captain.refused("dock")
    captain.refused("travel", target_poi="nowhere")
    assert captain.call("undock")["queued"] is True


def test_questions_are_free(captain: Captain) -> None:
    captain.call("undock")
    for tool in ("get_status", "get_nearby", "captains_log_list", "get_map"):
        assert "queued" not in captain.call(tool)
    captain.call("captains_log_add", entry="still free")


def test_captains_do_not_wait_for_each_other(game: Game, captain: Captain) -> None:
    captain.call("undock")
    assert Captain(game, "Other").call("undock")["queued"] is True


async def test_an_early_request_waits_for_the_next_tick(captain: Captain) -> None:
    game, turns = captain.game, Turns(captain.game)
    given = {"session_id": captain.session_id}
    await turns.answer("undock", given)
    early = asyncio.create_task(
        turns.answer("travel", {**given, "target_poi": "sol_belt"})
    )
    await turns.until_held(1)
    assert not early.done()
    game.step()
    turns.ring()
    assert '"queued": true' in await early
    assert turns.held == 0


async def test_waiting_requests_keep_their_order(captain: Captain) -> None:
    game, turns = captain.game, Turns(captain.game)
    given = {"session_id": captain.session_id}
    done: list[int] = []

    async def swing(number: int) -> None:
        await turns.answer("mine", given)
        done.append(number)

    captain.go_mining()
    await turns.answer("mine", given)
    waiting = []
    for number in range(5):
        waiting.append(asyncio.create_task(swing(number)))
        await turns.until_held(number + 1)
    for left in range(5, 0, -1):
        game.step()
        turns.ring()
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        waiting = [task for task in waiting if not task.done()]
        assert len(waiting) == turns.held == left - 1
    assert done == [0, 1, 2, 3, 4]


async def test_nobody_overtakes_those_who_wait(captain: Captain) -> None:
    game, turns = captain.game, Turns(captain.game)
    given = {"session_id": captain.session_id}
    await turns.answer("undock", given)
    early = asyncio.create_task(turns.answer("dock", given))
    await turns.until_held(1)
    # The tick has come, but those who wait have not heard of it yet.
    game.step()
    late = asyncio.create_task(turns.answer("mine", given))
    async with asyncio.timeout(60):
        await turns.until_held(2)
    turns.ring()
    assert "base_id" in await early
    assert not late.done()
    game.step()
    turns.ring()
    with pytest.raises(GameError, match="docked"):
        await late


async def test_a_waiting_request_that_is_refused_frees_the_tick(
    captain: Captain,
) -> None:
    game, turns = captain.game, Turns(captain.game)
    given = {"session_id": captain.session_id}
    await turns.answer("undock", given)
    wrong = asyncio.create_task(turns.answer("undock", given))
    await turns.until_held(1)
    right = asyncio.create_task(turns.answer("dock", given))
    await turns.until_held(2)
    game.step()
    turns.ring()
    with pytest.raises(GameError, match="Not docked"):
        await wrong
    assert "base_id" in await right


async def test_a_session_that_ends_while_its_request_waits(captain: Captain) -> None:
    game, turns = captain.game, Turns(captain.game)
    given = {"session_id": captain.session_id}
    await turns.answer("undock", given)
    early = asyncio.create_task(turns.answer("dock", given))
    await turns.until_held(1)
    captain.call("logout")
    game.step()
    turns.ring()
    with pytest.raises(GameError, match="session_invalid"):
        await early


async def test_wrong_arguments_are_refused_without_waiting(captain: Captain) -> None:
    turns = Turns(captain.game)
    given = {"session_id": captain.session_id}
    await turns.answer("undock", given)
    with pytest.raises(GameError, match="Unknown parameter"):
        await turns.answer("dock", {**given, "where": "here"})


async def test_only_so_many_requests_are_held(captain: Captain) -> None:
    turns = Turns(captain.game)
    given = {"session_id": captain.session_id}
    await turns.answer("undock", given)
    waiting = [
        asyncio.create_task(turns.answer("dock", given)) for _ in range(MOST_HELD_EACH)
    ]
    await turns.until_held(MOST_HELD_EACH)
    with pytest.raises(GameError, match="rate_limited"):
        await turns.answer("dock", given)
    turns.close()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert {getattr(result, "code", None) for result in results} == {"server_closing"}


async def test_a_request_that_is_given_up_leaves_nothing(captain: Captain) -> None:
    turns = Turns(captain.game)
    given = {"session_id": captain.session_id}
    await turns.answer("undock", given)
    early = asyncio.create_task(turns.answer("dock", given))
    await turns.until_held(1)
    early.cancel()
    await asyncio.gather(early, return_exceptions=True)
    assert turns.held == 0
    captain.game.step()
    turns.ring()
    assert captain.player.pending is None
