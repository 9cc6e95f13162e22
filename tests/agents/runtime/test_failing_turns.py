"""Turns that are stopped, or that the provider or the game lets fail."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from pytest_django import Settings

from agents import actions, events
from agents.llm.model_types import MOST_CALLS
from agents.models import ModelCall, Mysis, Provider, Turn
from agents.runtime.turn import take_turn
from agents.tools.request import INTERRUPTED, NOT_EXECUTED
from memory.assembly.sent_view import render_sent
from memory.handles import read_message
from memory.models import ContextPolicy, Memory, SentContext, TokenCalibration
from sandbox.game.testing import SandboxServer
from tests.agents.runtime.conftest import fly, refreshed
from tests.agents.runtime.logs import assert_paired, in_db, log
from tests.factories import make_account
from tests.fakes.openai import FakeProvider, Reply, call, completion


async def test_a_stop_aborts_a_call_in_flight(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    waiting = Reply(body=completion("too late"), wait=provider.arrived.__class__())
    provider.answers.append(waiting)
    row = await refreshed(eve)
    assert row.next_job
    turn = asyncio.create_task(take_turn(eve.pk, job_id=row.next_job, trigger="start"))
    assert await asyncio.to_thread(provider.arrived.wait, 20)
    await in_db(actions.stop_mysis)(mysis=eve, by="test")
    async with asyncio.timeout(60):
        await turn
    assert waiting.wait is not None
    waiting.wait.set()
    assert (await in_db(Turn.objects.get)()).outcome == "stopped"
    assert (await refreshed(eve)).state == "stopped"
    assert await in_db(log)(eve) == []


async def test_a_stop_during_an_action_leaves_no_call_open(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    register = call("register", '{"username": "Eve", "empire": "solarian"}')
    provider.answer(completion(None, tool_calls=[register]))
    provider.answer(
        completion(
            None, tool_calls=[call("undock", "{}", "a"), call("dock", "{}", "b")]
        )
    )
    row = await refreshed(eve)
    assert row.next_job
    turn = asyncio.create_task(take_turn(eve.pk, job_id=row.next_job, trigger="start"))
    await asyncio.to_thread(sandbox.wait_until_held)
    await in_db(actions.stop_mysis)(mysis=eve, by="test")
    async with asyncio.timeout(60):
        await turn
    rows = await in_db(log)(eve)
    assert_paired(rows)
    assert rows[-1].content == INTERRUPTED
    assert rows[-1].is_error


async def test_an_unknown_model_errors_at_once_with_the_remedy(
    ada: Mysis, sandbox: SandboxServer
):
    await in_db(Mysis.objects.filter(pk=ada.pk).update)(model="nosuch:model")
    flown = await fly(ada)
    assert flown.state == "errored"
    assert "nosuch" in flown.last_error
    assert flown.next_job is None
    kinds = [item["kind"] for item in await in_db(events.read_after)(0)]
    assert "error" in kinds
    assert (await in_db(Turn.objects.get)()).outcome == "errored"


async def test_a_refused_request_errors_and_says_what_the_provider_said(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    provider.refuse(401, "Incorrect API key provided.")
    flown = await fly(eve)
    assert flown.state == "errored"
    assert "Incorrect API key" in flown.last_error


async def test_a_busy_provider_is_asked_again_later(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    provider.refuse(429, "Slow down.", Retry_After="7")
    flown = await fly(eve)
    assert (flown.state, flown.failures) == ("running", 1)
    assert flown.wake_at is not None
    turn = await in_db(Turn.objects.get)()
    assert turn.finished_at is not None
    assert (flown.wake_at - turn.finished_at).total_seconds() > 6
    # What comes meanwhile waits for it too.
    await in_db(actions.send_message)(mysis=flown, text="Well?", by="operator:x")
    assert (await refreshed(flown)).wake_at == flown.wake_at
    provider.answer(completion("Back."))
    assert (await fly(flown, "retry")).failures == 0
    assert "Well?" in str(provider.messages)


async def test_a_game_that_is_down_ends_errored_with_the_remedy(
    ada: Mysis, settings: Settings
):
    settings.SPACEMOLT_MCP_URL = "http://127.0.0.1:9/mcp"
    settings.ZOEA_ERRORED_AFTER = 2
    flown = await fly(ada)
    assert (flown.state, flown.failures) == ("running", 1)
    assert "127.0.0.1:9" in flown.last_error
    assert "try again" in flown.activity
    flown = await fly(flown, "retry")
    assert flown.state == "errored"
    assert "127.0.0.1:9" in flown.last_error
    assert await in_db(Memory.objects.count)() == 0
    outcomes = await in_db(lambda: {t.outcome for t in Turn.objects.all()})()
    assert outcomes == {"errored"}


async def test_a_turn_that_meets_a_password_under_another_key_is_left_to_others(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer, settings: Settings
):
    keys = settings.ZOEA_KEYS
    settings.ZOEA_KEYS = ["the key of another worker"]
    await in_db(make_account)(username="Eve", password="of Eve", assigned_to=eve)
    settings.ZOEA_KEYS = keys
    provider.answer(completion(None, tool_calls=[call("login", '{"username": "Eve"}')]))
    flown = await fly(eve)
    assert (flown.state, flown.failures) == ("running", 1)
    assert flown.last_error_code == "game"
    assert "ZOEA_SECRET_KEY" in flown.activity
    rows = await in_db(log)(eve)
    assert_paired(rows)
    assert rows[-1].content == NOT_EXECUTED


async def test_a_turn_that_meets_an_api_key_under_another_key_is_left_to_others(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer, settings: Settings
):
    keys = settings.ZOEA_KEYS
    settings.ZOEA_KEYS = ["the key of another worker"]
    flown = await fly(eve)
    assert (flown.state, flown.failures) == ("running", 1)
    assert flown.last_error_code == "key"
    settings.ZOEA_KEYS = keys
    provider.answer(completion("Back."))
    assert (await fly(flown, "retry")).failures == 0


async def test_odd_characters_in_a_refusal_do_not_loop(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    provider.refuse(400, "context \x00 too \ud800 long")
    flown = await fly(eve)
    assert flown.state == "errored"
    assert "too" in flown.last_error


@pytest.mark.parametrize("more", [9, 9_968])
async def test_calls_beyond_the_limit_are_dropped_and_both_are_told(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer, more: int
):
    many = [call("get_version", "{}", f"c{n}") for n in range(MOST_CALLS + more)]
    provider.answer(completion("On it.", tool_calls=many))
    provider.answer(completion("Enough."))
    flown = await fly(eve)
    assert flown.last_error == ""
    rows = await in_db(log)(eve)
    assert_paired(rows)
    [answer] = [row for row in rows if row.tool_calls]
    assert [one["id"] for one in answer.tool_calls] == [f"c{n}" for n in range(32)]
    results = [row.content for row in rows if row.role == "tool"]
    assert [f"{more:,} more were dropped" in text for text in results] == (
        [False] * 31 + [True]
    )
    assert f"{more:,} more were dropped" in json.dumps(
        provider.requests[-1]["messages"]
    )
    found = await in_db(events.read_after)(0, kinds=["error"])
    codes = [one["data"]["code"] for one in found]
    told = found[codes.index("too_many_calls")]
    assert codes.count("too_many_calls") == 1
    assert f"{32 + more:,} calls in one answer" in told["data"]["detail"]


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 10**18, "completion_tokens": 5},
        {"prompt_tokens": 10**400, "completion_tokens": 5},
        {"prompt_tokens": 5, "completion_tokens": 9 * 10**18},
        {
            "prompt_tokens": 5,
            "completion_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 10**9},
        },
    ],
    ids=["input", "no bigint", "output", "cached"],
)
async def test_numbers_that_cannot_be_true_are_estimated_and_told_once(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer, usage: dict[str, Any]
):
    for _ in range(2):
        told = {"total_tokens": 10, **usage}
        provider.answer(completion("Aye. " * 40) | {"usage": told})
        assert (await fly(eve)).last_error == ""
    calls = await in_db(lambda: list(ModelCall.objects.all()))()
    assert len(calls) == 2
    for one in calls:
        assert 1_000 < one.input_tokens < 50_000
        assert 20 < one.output_tokens < 200
        assert one.cached_tokens == 0
        assert 0 < one.cost < 1
    noted = await in_db(events.read_after)(0, kinds=["error"])
    assert [one["data"]["code"] for one in noted] == ["usage"]
    assert not await in_db(TokenCalibration.objects.exists)()


async def test_a_call_of_giant_arguments_does_not_ground_a_mysis(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    """They are cut where the view has no room else, stay in the log and can be read."""
    await in_db(Provider.objects.update)(window=32_768)
    giant = json.dumps({"text": "All the ore is at Earth Station. " * 6_000})
    provider.answer(completion(None, tool_calls=[call("chat", giant)]))
    provider.answer(completion("Enough."))
    assert (await fly(eve)).last_error == ""
    rows = await in_db(log)(eve)
    assert_paired(rows)
    [answer] = [row for row in rows if row.tool_calls]
    [stored] = answer.tool_calls
    assert stored["function"]["arguments"] == giant
    said = json.dumps(provider.requests[-1]["messages"])
    assert f"characters omitted, see ctx://{eve.pk}/{answer.pk}]" in said
    assert giant in await in_db(read_message)(eve.pk, answer.pk)
    kept = await in_db(lambda: list(SentContext.objects.order_by("pk")))()
    assert [(await in_db(render_sent)(one)).intact for one in kept] == [True, True]
    lines = (await in_db(render_sent)(kept[-1])).ledger
    [line] = [one for one in lines if one["id"] == answer.pk]
    assert (line["disposition"], line["by"]) == ("truncated", "budget")


async def test_a_strategy_that_fails_is_told_once(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    """The window stands in, and the operator hears of it, but not at every call."""

    def gone() -> None:
        # As after an upgrade that took a plug-in away.
        policy = ContextPolicy.objects.create(name="gone", strategy="gone")
        Mysis.objects.filter(pk=eve.pk).update(policy=policy)

    await in_db(gone)()
    for _ in range(2):
        provider.answer(completion("Aye."))
        await fly(eve)
    kept = await in_db(lambda: list(SentContext.objects.all()))()
    assert {context.stats["status"] for context in kept} == {"fallback_used"}
    told = await in_db(events.read_after)(0, kinds=["error"])
    assert len(told) == 1
    assert "gone" in told[0]["data"]["detail"]
