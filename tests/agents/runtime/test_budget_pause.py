"""Turns under a budget: held with a reason, and gone on with by themselves."""

from __future__ import annotations

from typing import Any

import pytest
from channels.db import database_sync_to_async
from procrastinate.contrib.django.models import ProcrastinateJob

from agents import actions
from agents.models import Budget, BudgetSpend, Event, ModelCall, Mysis, Turn
from sandbox.game.testing import SandboxServer
from tests.agents.runtime.conftest import GOOD, fly, refreshed, wear
from tests.factories import make_memory
from tests.fakes.openai import FakeProvider, completion

in_db = database_sync_to_async


def limit(**values: Any) -> Budget:
    given = {"name": "cap", "scope": "each", "tokens": 200_000} | values
    return actions.save_budget(budget=Budget(**given))


def told(mysis: Mysis, kind: str) -> list[dict[str, Any]]:
    found = Event.objects.filter(mysis=mysis, kind=kind).order_by("pk")
    return list(found.values_list("data", flat=True))


def due(mysis: Mysis) -> Any:
    return ProcrastinateJob.objects.get(pk=mysis.next_job).scheduled_at


def spend(budget: Budget, mysis: Mysis) -> int:
    return BudgetSpend.objects.get(budget=budget, subject=mysis.pk).tokens


async def test_a_call_that_has_no_room_is_not_made_and_a_raise_lets_it_go_on(
    eve: Mysis, sandbox: SandboxServer, provider: FakeProvider
):
    budget = await in_db(limit)()
    provider.answer(completion("Aye."))
    await fly(eve)
    # The estimate has given way to what the provider counted.
    assert await in_db(spend)(budget, eve) == 1200
    budget.tokens = 1201
    await in_db(actions.save_budget)(budget=budget)
    after = await fly(eve)
    assert len(provider.requests) == 1
    assert (after.state, after.last_error) == ("running", "")
    assert "The budget cap (each mysis by itself)" in after.hold
    turn = await in_db(Turn.objects.order_by("-pk").first)()
    assert (turn.outcome, turn.error) == ("interrupted", after.hold)
    assert await in_db(ModelCall.objects.filter(turn=turn).count)() == 0
    [error] = await in_db(told)(eve, "error")
    assert (error["code"], error["detail"]) == ("budget", after.hold)
    when = await in_db(due)(after)
    assert (when.hour, when.minute // 2) == (0, 0)
    budget.tokens = 200_000
    await in_db(actions.save_budget)(budget=budget)
    assert await in_db(due)(await refreshed(eve)) is None
    provider.answer(completion("Aye."))
    after = await fly(eve)
    assert (len(provider.requests), after.hold) == (2, "")
    states = await in_db(told)(eve, "mysis.state")
    assert [bool(state.get("hold")) for state in states[-2:]] == [True, False]


async def test_messages_to_one_that_is_held_make_no_turns(
    eve: Mysis, sandbox: SandboxServer, provider: FakeProvider
):
    await in_db(limit)(tokens=0, scope="fleet")
    await fly(eve)
    for text in ("Hello?", "Anybody?"):
        await in_db(actions.send_message)(mysis=eve, text=text, by="test")
        after = await fly(eve)
        assert after.hold
        assert (await in_db(due)(after)).hour == 0
    assert await in_db(Turn.objects.count)() == 0
    assert len(await in_db(told)(eve, "error")) == 1


async def test_stop_and_start_of_one_that_is_held(
    eve: Mysis, sandbox: SandboxServer, provider: FakeProvider
):
    await in_db(limit)(tokens=0, scope="fleet")
    await fly(eve)
    stopped = await in_db(actions.stop_mysis)(mysis=eve, by="test")
    assert (stopped.hold, stopped.next_job) == ("", None)
    started = await in_db(actions.start_mysis)(mysis=eve, by="test")
    assert (await fly(started)).hold


async def test_summaries_count_too(
    eve: Mysis, sandbox: SandboxServer, provider: FakeProvider
):
    """What a summary is to cost is asked of the budget, and what it cost is kept."""
    await in_db(wear)(eve)
    budget = await in_db(limit)(tokens=100_000)
    provider.answer(completion(GOOD))
    provider.answer(completion("Aye."))
    await fly(eve)
    assert await in_db(spend)(budget, eve) == 2400
    await in_db(_wear_again)(eve)
    budget.tokens = 2500
    await in_db(actions.save_budget)(budget=budget)
    after = await fly(eve)
    assert after.hold
    assert len(provider.requests) == 2


def _wear_again(mysis: Mysis) -> None:
    for number in range(20, 40):
        text = f"Step {number}. " + "word " * 60
        make_memory(mysis, role="assistant", content=text)


@pytest.mark.parametrize(("status", "kept"), [(429, False), (200, True)])
async def test_an_estimate_stays_where_the_call_may_have_been_charged(
    eve: Mysis,
    sandbox: SandboxServer,
    provider: FakeProvider,
    status: int,
    kept: bool,
):
    budget = await in_db(limit)()
    provider.answer("<html>busy</html>", status)
    await fly(eve)
    assert bool(await in_db(spend)(budget, eve)) is kept


@pytest.mark.parametrize(("status", "kept"), [(502, True), (429, False)])
async def test_what_may_have_been_charged_stays_counted(
    eve: Mysis, sandbox: SandboxServer, provider: FakeProvider, status: int, kept: bool
):
    """A gateway gives up after a long generation; a refusal costs nothing."""
    budget = await in_db(limit)()
    provider.refuse(status, "Try later.")
    await fly(eve)
    assert (await in_db(spend)(budget, eve) > 0) is kept
