"""The game's events, asked for by the program at the start of each turn."""

from __future__ import annotations

import asyncio
import json

import pytest
from channels.db import database_sync_to_async as in_db
from pytest_django import Settings

from agents.models import Mysis
from memory.assembly.sent_view import render_sent
from memory.gamestate.invalidation import join_marks
from memory.gamestate.types import Stale
from memory.models import GameEvent, GameSnapshot, SentContext
from sandbox.game.testing import SandboxServer
from tests.agents.runtime.conftest import fly
from tests.factories import give_policy
from tests.fakes.openai import FakeProvider, call, completion

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.asyncio]
REGISTER = call("register", '{"username": "Eve", "empire": "solarian"}')


async def settled(mysis: Mysis, provider: FakeProvider, sandbox: SandboxServer) -> None:
    """With an account that knows its hold, mining at a belt."""
    provider.answer(completion(None, tool_calls=[REGISTER]))
    provider.answer(completion(None, tool_calls=[call("undock")]))
    provider.answer(completion("Off."))
    await fly(mysis)
    await asyncio.to_thread(sandbox.step)
    belt = call("travel", json.dumps({"target_poi": "sol_belt"}))
    provider.answer(completion(None, tool_calls=[belt]))
    provider.answer(completion("Flying."))
    await fly(mysis)
    await asyncio.to_thread(sandbox.step, 3)
    provider.answer(completion(None, tool_calls=[call("get_cargo")]))
    provider.answer(completion(None, tool_calls=[call("mine")]))
    provider.answer(completion("Mining."))
    await fly(mysis)
    await asyncio.to_thread(sandbox.step, 2)


async def newest_view(provider: FakeProvider) -> str:
    return json.dumps(provider.messages)


async def test_what_became_of_an_action_is_known_without_asking(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    await settled(eve, provider, sandbox)
    before = sandbox.calls("Eve")["by_tool"]["queries"].get("get_notifications", 0)
    provider.answer(completion("Fine."))
    after = await fly(eve)
    assert after.last_error == ""
    queries = sandbox.calls("Eve")["by_tool"]["queries"]
    assert queries["get_notifications"] == before + 1
    view = await newest_view(provider)
    assert "### Events (get_notifications" in view
    assert "mining_yield at tick" in view
    assert "Events are fetched for you" in view
    row = await in_db(GameSnapshot.objects.get)(tool_name="get_cargo")
    assert row.merged, "the yield is in the cached hold"
    assert await in_db(GameEvent.objects.filter(kind="mining_yield").count)() == 1
    # The call is nobody's: it stands in no history.
    stored = await in_db(
        lambda: list(eve.memories.values_list("tool_name", flat=True))
    )()
    assert "get_notifications" not in stored
    kept = await in_db(SentContext.objects.order_by("-pk").first)()
    assert (await in_db(render_sent)(kept)).intact


@pytest.mark.parametrize(
    ("ended", "lost"),
    [({}, True), ({"iterations": 1}, False), ({"outcome": "stopped"}, True)],
)
async def test_a_worker_that_died_may_have_had_events(
    eve: Mysis,
    provider: FakeProvider,
    sandbox: SandboxServer,
    ended: dict[str, object],
    lost: bool,
):
    """The game gave them away; what they would have told is in doubt."""
    await settled(eve, provider, sandbox)
    newest = await in_db(eve.turns.order_by("-number").first)()
    assert newest is not None
    end = {"outcome": "interrupted", "iterations": 0, "error": "", **ended}
    await in_db(eve.turns.filter(pk=newest.pk).update)(**end)
    provider.answer(completion("Fine."))
    await fly(eve)
    row = await in_db(GameSnapshot.objects.get)(tool_name="get_cargo")
    assert ("lost events" in {mark["reason"] for mark in row.marks}) is lost


@pytest.mark.parametrize("reason", ["lost events", "mine"])
async def test_what_lost_events_put_in_doubt_is_asked_again(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer, reason: str
):
    """No event will tell any more; what an action changed, its event tells."""
    await settled(eve, provider, sandbox)
    provider.answer(completion(None, tool_calls=[call("get_status")]))
    provider.answer(completion("Fine."))
    await fly(eve)

    def doubt() -> None:
        row = GameSnapshot.objects.get(tool_name="get_status")
        marks = Stale(reason, 3), Stale("mine", 4, ("ship.cargo",))
        row.set_marks(marks)
        row.set_joined_mark(join_marks(marks, 4))
        row.save()

    await in_db(doubt)()
    before = sandbox.calls("Eve")["by_tool"]["queries"]["get_status"]
    provider.answer(completion("Fine."))
    assert (await fly(eve)).last_error == ""
    after = sandbox.calls("Eve")["by_tool"]["queries"]["get_status"]
    assert after - before == (1 if reason == "lost events" else 0)
    row = await in_db(GameSnapshot.objects.get)(tool_name="get_status")
    assert (row.get_joined_mark() is None) == (reason == "lost events")


async def test_a_turn_that_could_not_begin_hides_no_death(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    """Such as one that found no provider, after a worker that died while asking."""
    await settled(eve, provider, sandbox)

    def die_and_fail() -> None:
        newest = eve.turns.order_by("-number").first()
        assert newest is not None
        died = {"outcome": "stopped", "iterations": 0, "error": ""}
        eve.turns.filter(pk=newest.pk).update(**died)
        eve.turns.create(number=newest.number + 1, outcome="errored", error="No key.")
        Mysis.objects.filter(pk=eve.pk).update(turn_count=newest.number + 1)

    await in_db(die_and_fail)()
    for _ in range(2):
        provider.answer(completion("Fine."))
        await fly(eve)
    row = await in_db(GameSnapshot.objects.get)(tool_name="get_cargo")
    assert [mark["reason"] for mark in row.marks].count("lost events") == 1


@pytest.mark.parametrize("how", ["no state block", "switched off"])
async def test_nothing_is_read_that_no_view_would_tell(
    eve: Mysis,
    provider: FakeProvider,
    sandbox: SandboxServer,
    settings: Settings,
    how: str,
):
    """A queue is emptied by reading it: its events must not be lost to the agent."""

    def without_block() -> None:
        give_policy(eve, name="x", options={"state_block": False})

    if how == "switched off":
        settings.ZOEA_FETCH_EVENTS = False
    else:
        await in_db(without_block)()
    await settled(eve, provider, sandbox)
    assert "get_notifications" not in sandbox.calls("Eve")["by_tool"]["queries"]
    provider.answer(completion(None, tool_calls=[call("get_notifications")]))
    provider.answer(completion("Fine."))
    await fly(eve)
    assert "mining_yield" in await newest_view(provider)


async def test_events_that_cannot_be_had_are_no_failure(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    await settled(eve, provider, sandbox)
    sandbox.strike_once("rate-limit", tool="get_notifications")
    provider.answer(completion("Fine."))
    after = await fly(eve)
    assert (after.last_error, after.failures) == ("", 0)
    assert sandbox.struck["rate-limit"] == 1


async def test_a_long_queue_is_read_to_its_end(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    """The own outcome may stand behind what others said."""
    await settled(eve, provider, sandbox)
    player = sandbox.player("Eve")

    def crowd() -> None:
        for session in sandbox.game.state.sessions.of(player.id):
            waiting = session.waiting
            first = waiting[0]
            for number in range(70):
                waiting.appendleft(first | {"id": f"{number:032x}", "data": {}})

    sandbox.run(crowd)
    provider.answer(completion("Fine."))
    await fly(eve)
    kinds = (
        GameEvent.objects.filter(username="Eve")
        .order_by("pk")
        .values_list("data", flat=True)
    )
    stored = await in_db(lambda: list(kinds))()
    assert len(stored) > 70
    row = await in_db(GameSnapshot.objects.get)(tool_name="get_cargo")
    assert row.merged


async def test_no_secret_in_an_event_is_kept_or_shown(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    """I27: the session id of the game and passwords stay with the program."""
    await settled(eve, provider, sandbox)
    player = sandbox.player("Eve")

    def leak() -> str:
        (session,) = sandbox.game.state.sessions.of(player.id)
        first = session.waiting[0]
        told = {"session_id": session.id, "note": f"use {session.id}"}
        session.waiting.append(first | {"id": "f" * 32, "data": told})
        return session.id

    secret = sandbox.run(leak)
    provider.answer(completion("Fine."))
    await fly(eve)
    assert secret not in await newest_view(provider)
    kept = await in_db(
        lambda: [str(e.data) for e in GameEvent.objects.order_by("pk")]
    )()
    assert "use" in "".join(kept)
    assert secret not in "".join(kept)
