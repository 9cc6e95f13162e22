"""Turns on real parts: the sandbox over MCP, a strict provider over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from itertools import pairwise

import pytest

from agents import actions, events
from agents.context_inputs import build_subject
from agents.models import (
    Account,
    Budget,
    ModelCall,
    Mysis,
    Pin,
    Prompt,
    ToolCatalogue,
    Turn,
)
from agents.runtime.turn import take_turn
from agents.tools.request import INTERRUPTED
from bench import turns
from memory import calibration
from memory.assembly import sent_view as kept_views
from memory.context.report import count_shared_bytes
from memory.gamestate.render import split_state
from memory.models import GameSnapshot, Memory, SentContext
from sandbox.game.testing import SandboxServer
from tests.agents.runtime.conftest import fly, in_mid_call, refreshed
from tests.agents.runtime.logs import assert_paired, in_db, log
from tests.factories import give_policy, make_memory
from tests.fakes.openai import FakeProvider, call, completion


async def test_the_pilot_registers_and_plays(ada: Mysis, sandbox: SandboxServer):
    flown = await fly(ada, "start")
    rows = await in_db(log)(ada)
    assert_paired(rows)
    assert rows[0].tool_calls[0]["function"]["name"] == "register"
    turn = await in_db(Turn.objects.get)()
    assert (turn.number, turn.trigger, turn.outcome) == (1, "start", "done")
    assert turn.iterations == await in_db(ModelCall.objects.count)()
    assert flown.state == "running"
    assert flown.next_job is not None
    account = await in_db(Account.objects.get)()
    assert flown.account_id == account.pk
    secrets = (account.password, account.game_session)
    everything = json.dumps([[r.content, r.tool_calls] for r in rows], default=str)
    seen = await in_db(events.read_after)(0)
    assert all(secret not in everything for secret in secrets)
    assert all(secret not in json.dumps(seen) for secret in secrets)


async def test_calls_that_follow_each_other_share_their_beginning(
    ada: Mysis, sandbox: SandboxServer
):
    """I25: between two calls without a compaction only the end is another."""
    for _ in range(6):
        await fly(ada)
        await asyncio.to_thread(sandbox.step)
    kept = await in_db(lambda: list(SentContext.objects.order_by("pk")))()
    views = [await in_db(kept_views.render_sent)(context) for context in kept]
    compared = 0
    for (before, now), context in zip(pairwise(views), kept[1:], strict=True):
        shared = context.stats["prefix_shared_bytes"]
        assert shared == count_shared_bytes(before.messages, now.messages)
        if before.messages[0] != now.messages[0] or context.stats["masked"]:
            continue  # another account, or a compaction
        lasting = list(before.messages)
        while before.sources[len(lasting) - 1] is None and len(lasting) > 1:
            lasting.pop()  # the nudge, and the state block at its end
        # That block may also stand at the end of what lasts, before the closing sign.
        said, _ = split_state(str(lasting[-1]["content"]))
        whole = count_shared_bytes(lasting[:-1], lasting[:-1])
        assert shared > whole + len(said.encode())
        compared += 1
    assert compared > 2


async def test_snapshots_are_kept_and_go_stale(ada: Mysis, sandbox: SandboxServer):
    for _ in range(12):
        await fly(ada)
        await asyncio.to_thread(sandbox.step)
    rows = await in_db(lambda: list(GameSnapshot.objects.all()))()
    assert rows
    assert {row.username for row in rows} == {"Ada"}
    assert any(row.stale_reason for row in rows)
    seen = await in_db(events.read_after)(0, kinds=["snapshot.stale"])
    assert {"tool", "reason", "fields"} <= set(seen[0]["data"])
    assert await in_db(ToolCatalogue.objects.count)() == 1


async def test_the_provider_gets_exactly_what_is_kept(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    provider.answer(completion(None, tool_calls=[call("get_version")]))
    provider.answer(completion("Done.", reasoning_content="Nothing to do yet."))
    await fly(eve, "start")
    kept = await in_db(lambda: list(SentContext.objects.order_by("pk")))()
    assert len(provider.requests) == len(kept) == 2
    for request, context in zip(provider.requests, kept, strict=True):
        shown = await in_db(kept_views.render_sent)(context)
        # Byte for byte: a cache and a comparison read the order of keys too.
        assert json.dumps(request["messages"]) == json.dumps(shown.messages)
        assert shown.intact
    assert kept[1].stats["prefix_shared_bytes"] == count_shared_bytes(
        provider.requests[0]["messages"], provider.requests[1]["messages"]
    )
    last = (await in_db(log)(eve))[-1]
    assert (last.content, last.reasoning) == ("Done.", "Nothing to do yet.")
    turn = await in_db(Turn.objects.get)()
    assert (turn.input_tokens, turn.output_tokens) == (2000, 400)
    assert turn.cached_tokens == 1200
    assert turn.cost > 0


async def test_three_turns_without_a_deed_lead_to_rest_and_a_message_wakes(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    flown = eve
    for _ in range(3):
        provider.answer(completion("Thinking."))
        flown = await fly(flown)
    assert (flown.state, flown.next_job, flown.nudges) == ("idle", None, 0)
    nudged = [request["messages"][-1]["content"] for request in provider.requests]
    assert nudged[1] != nudged[2]
    await in_db(actions.send_message)(mysis=flown, text="Dock.", by="operator:x")
    provider.answer(completion("Docking."))
    flown = await fly(flown, "message")
    assert "Dock." in json.dumps(provider.requests[-1]["messages"])


async def test_a_message_that_comes_meanwhile_is_answered_next(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    async with in_mid_call(eve, provider, completion("Resting.")):
        await in_db(actions.send_message)(mysis=eve, text="Wait!", by="operator:x")
    due = await refreshed(eve)
    assert due.next_job is not None
    assert due.wake_at is None
    assert [r.content for r in await in_db(log)(eve)] == ["Wait!", "Resting."]


async def test_the_iteration_limit_ends_the_turn_and_is_no_error(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    await in_db(actions.update_mysis)(mysis=eve, by="x", max_iterations=2)
    for _ in range(2):
        provider.answer(completion(None, tool_calls=[call("get_version")]))
    flown = await fly(eve)
    assert flown.state == "running"
    assert (await in_db(Turn.objects.get)()).outcome == "iteration_limit"
    assert_paired(await in_db(log)(eve))


async def test_a_message_that_a_call_showed_costs_no_turn_of_its_own(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    asks = completion(None, tool_calls=[call("get_version")])
    async with in_mid_call(eve, provider, asks):
        provider.answer(completion("Seen, and done."))
        await in_db(actions.send_message)(mysis=eve, text="Wait!", by="operator:x")
    assert "Wait!" in json.dumps(provider.requests[-1]["messages"])
    after = await refreshed(eve)
    assert after.next_job is not None
    assert after.wake_at is not None, "the next turn is a nudge, not the message's"


async def test_a_fleet_with_and_without_letters_keeps_one_catalogue(
    eve: Mysis, ada: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    """And a preview knows the tools that the next call of this Mysis offers."""
    await in_db(Mysis.objects.filter(pk=eve.pk).update)(messaging=True)
    provider.answer(completion("Aye."))
    await fly(eve)
    first = await in_db(ToolCatalogue.objects.get)()
    await fly(ada)
    assert (await in_db(ToolCatalogue.objects.get)()).updated_at == first.updated_at

    def known(mysis: Mysis) -> set[str]:
        return set(build_subject(Mysis.objects.get(pk=mysis.pk)).tool_policy)

    offered = {tool["function"]["name"] for tool in provider.requests[0]["tools"]}
    assert "zoea_broadcast" in offered
    assert await in_db(known)(eve) == offered
    assert offered - await in_db(known)(ada) == {"zoea_send_message", "zoea_broadcast"}


async def test_a_turn_reads_once_and_writes_once(
    eve: Mysis,
    provider: FakeProvider,
    sandbox: SandboxServer,
    monkeypatch: pytest.MonkeyPatch,
):
    """Counted are the turn's own statements and transactions, with the game's events.

    How the model counts tokens is known: learning it takes one more for each call.
    """
    monkeypatch.setattr(calibration, "ENOUGH", 0)
    monkeypatch.setattr(calibration, "ONE_IN", 10**9)
    for owner, name, count in turns.COUNTED:
        monkeypatch.setattr(owner, name, count(getattr(owner, name)))
    register = call("register", '{"username": "Eve", "empire": "solarian"}')
    for made in (register, *[call("undock"), call("dock")] * 3):
        provider.answer(completion(None, tool_calls=[made]))
        provider.answer(completion("Done."))
        row = await refreshed(eve)
        with turns.measured_parts() as parts:
            await take_turn(eve.pk, job_id=row.next_job or 0, trigger="nudge")
        await asyncio.to_thread(sandbox.step)
    assert (await in_db(Turn.objects.latest)("pk")).iterations == 2
    assert parts["statements"] <= 39
    assert parts["transactions"] == 8


def edit_prompt(mysis: Mysis) -> None:
    prompt = Prompt.objects.create(name="Edited")
    Mysis.objects.filter(pk=mysis.pk).update(prompt=prompt)
    actions.save_prompt(prompt=prompt, text="Say: news.", by="x")


def add_order(mysis: Mysis) -> None:
    Pin.objects.create(mysis=mysis, text="Say: news.")


def change_policy(mysis: Mysis) -> None:
    give_policy(mysis, name="news", strategy="window", options={"window": 1})


def answer_late(mysis: Mysis) -> None:
    """As a worker that was taken for dead does."""
    Memory.objects.filter(mysis=mysis, content=INTERRUPTED).update(
        content="Say: news.", is_error=False
    )


def learn_state(mysis: Mysis) -> None:
    GameSnapshot.objects.update(
        content='{"player": {"username": "Eve", "current_system": "news"}}'
    )


@pytest.mark.parametrize(
    "change", [edit_prompt, add_order, change_policy, answer_late, learn_state]
)
async def test_what_others_change_in_a_turn_counts_from_its_next_call(
    change: Callable[[Mysis], None],
    eve: Mysis,
    provider: FakeProvider,
    sandbox: SandboxServer,
):
    register = call("register", '{"username": "Eve", "empire": "solarian"}')
    provider.answer(completion(None, tool_calls=[register]))
    provider.answer(completion(None, tool_calls=[call("get_status")]))
    provider.answer(completion("Registered."))
    await fly(eve, "start")
    await in_db(leave_open)(eve)
    asks = completion(None, tool_calls=[call("get_version")])
    async with in_mid_call(eve, provider, asks):
        provider.answer(completion("Seen, and done."))
        await in_db(change)(eve)
    before, after = (json.dumps(each["messages"]) for each in provider.requests[-2:])
    assert "news" not in before
    kept = await in_db(SentContext.objects.latest)("pk")
    assert "news" in after or kept.strategy == "window"
    assert (await in_db(kept_views.render_sent)(kept)).intact


def leave_open(mysis: Mysis) -> None:
    """A call and its result as the end of a lost worker leaves them."""
    function = {"name": "get_map", "arguments": "{}"}
    calls = [{"id": "lost", "type": "function", "function": function}]
    make_memory(mysis, role="assistant", origin="agent", content="", tool_calls=calls)
    make_memory(
        mysis,
        role="tool",
        origin="tool",
        content=INTERRUPTED,
        is_error=True,
        tool_call_id="lost",
    )


async def test_a_budget_that_is_spent_elsewhere_holds_the_next_call(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    asks = completion(None, tool_calls=[call("get_version")])
    async with in_mid_call(eve, provider, asks):
        spent = Budget(name="All", scope="fleet", tokens=1)
        await in_db(actions.save_budget)(budget=spent)
    assert "All" in (await refreshed(eve)).hold
    assert len(provider.requests) == 1
