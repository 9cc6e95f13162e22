"""Turns on real parts: the sandbox over MCP, a strict provider over HTTP."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from typing import Any

import pytest
from channels.db import database_sync_to_async
from django.db import transaction
from pytest_django import Settings

from agents import actions, events
from agents.context import subject_of
from agents.game.sandbox.testing import SandboxServer
from agents.llm.endpoints import resolve
from agents.llm.types import Completion, Usage
from agents.models import (
    Account,
    ModelCall,
    Mysis,
    ToolCatalogue,
    Turn,
    UnknownOutcome,
)
from agents.runtime import answers, ending, records, recovery, stopping
from agents.runtime import calls as model_calls
from agents.runtime.turn import take_turn
from memory import shown as kept_views
from memory.context.stats import shared_bytes
from memory.gamestate.extract import read_result
from memory.models import ContextPolicy, GameSnapshot, Memory, SentContext
from memory.state import capture
from tests.agents.llm.fake_provider import FakeProvider, Reply, call, completion

from .conftest import fly, refreshed

in_db = database_sync_to_async


def log(mysis: Mysis) -> list[Memory]:
    return list(Memory.objects.filter(mysis=mysis).order_by("pk"))


def assert_paired(rows: list[Memory]) -> None:
    """Every call has its result right behind it, and nothing is pending."""
    waiting: list[str] = []
    for row in rows:
        assert not row.pending
        if row.role == "tool":
            assert row.tool_call_id in waiting
            waiting.remove(row.tool_call_id)
        else:
            assert waiting == []
        if row.role == "assistant":
            waiting = [item["id"] for item in row.tool_calls]
    assert waiting == []


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


async def test_what_a_call_was_sent_can_be_shown_again(
    ada: Mysis, sandbox: SandboxServer
):
    for _ in range(4):
        await fly(ada)
        await asyncio.to_thread(sandbox.step)
    kept = await in_db(lambda: list(SentContext.objects.order_by("pk")))()
    shown = [await in_db(kept_views.show)(context) for context in kept]
    assert len(kept) > 4
    assert all(view.intact for view in shown)
    assert shown[-1].messages[0]["role"] == "system"
    assert "## Current Game State" in json.dumps(shown[-1].messages[-1])
    assert {line["disposition"] for line in shown[-1].ledger} >= {"kept"}


async def test_calls_that_follow_each_other_share_their_beginning(
    ada: Mysis, sandbox: SandboxServer
):
    """I25: between two calls without a compaction only the end is another."""
    for _ in range(6):
        await fly(ada)
        await asyncio.to_thread(sandbox.step)
    kept = await in_db(lambda: list(SentContext.objects.order_by("pk")))()
    views = [await in_db(kept_views.show)(context) for context in kept]
    compared = 0
    for (before, now), context in zip(pairwise(views), kept[1:], strict=True):
        shared = context.stats["prefix_shared_bytes"]
        assert shared == shared_bytes(before.messages, now.messages)
        if before.messages[0] != now.messages[0] or context.stats["masked"]:
            continue  # another account, or a compaction
        lasting = list(before.messages)
        while before.sources[len(lasting) - 1] is None and len(lasting) > 1:
            lasting.pop()  # nudge and state block
        assert shared >= shared_bytes(lasting, lasting)
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
        shown = await in_db(kept_views.show)(context)
        # Byte for byte: a cache and a comparison read the order of keys too.
        assert json.dumps(request["messages"]) == json.dumps(shown.messages)
        assert shown.intact
    assert kept[1].stats["prefix_shared_bytes"] == shared_bytes(
        provider.requests[0]["messages"], provider.requests[1]["messages"]
    )
    last = (await in_db(log)(eve))[-1]
    assert (last.content, last.reasoning) == ("Done.", "Nothing to do yet.")
    turn = await in_db(Turn.objects.get)()
    assert (turn.input_tokens, turn.output_tokens) == (2000, 400)
    assert turn.cached_tokens == 1200
    assert turn.cost > 0


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
    async with asyncio.timeout(10):
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
    async with asyncio.timeout(10):
        await turn
    rows = await in_db(log)(eve)
    assert_paired(rows)
    assert rows[-1].content == records.INTERRUPTED
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


async def test_three_turns_without_a_deed_lead_to_rest_and_a_message_wakes(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    flown = eve
    for _ in range(3):
        provider.answer(completion("Thinking."))
        flown = await fly(flown)
    assert (flown.state, flown.next_job, flown.nudges) == ("idle", None, 0)
    # The state block stands last; the nudge before it.
    nudged = [request["messages"][-2]["content"] for request in provider.requests]
    assert nudged[1] != nudged[2]
    await in_db(actions.send_message)(mysis=flown, text="Dock.", by="operator:x")
    provider.answer(completion("Docking."))
    flown = await fly(flown, "message")
    assert "Dock." in json.dumps(provider.requests[-1]["messages"])


async def test_a_message_that_comes_meanwhile_is_answered_next(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    waiting = Reply(body=completion("Resting."), wait=provider.arrived.__class__())
    provider.answers.append(waiting)
    row = await refreshed(eve)
    assert row.next_job
    turn = asyncio.create_task(take_turn(eve.pk, job_id=row.next_job, trigger="start"))
    assert await asyncio.to_thread(provider.arrived.wait, 20)
    await in_db(actions.send_message)(mysis=eve, text="Wait!", by="operator:x")
    assert waiting.wait is not None
    waiting.wait.set()
    await turn
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


async def test_a_job_that_is_no_longer_the_one_does_nothing(
    ada: Mysis, sandbox: SandboxServer
):
    assert ada.next_job is not None
    await in_db(actions.send_message)(mysis=ada, text="hi", by="x")
    await take_turn(ada.pk, job_id=ada.next_job, trigger="start")
    assert await in_db(Turn.objects.count)() == 0


def abandoned_turn(mysis: Mysis) -> None:
    """What a worker leaves that is killed in the middle of an action."""
    begun = records.begin(mysis.pk, job_id=mysis.next_job or 0, trigger="start")
    assert begun is not None
    row: dict[str, Any] = {"mysis": mysis, "turn_id": begun.turn_id}
    item = call("mine", "{}", "x")
    Memory.objects.create(**row, role="assistant", origin="agent", tool_calls=[item])
    Memory.objects.create(
        **row,
        role="tool",
        origin="tool",
        tool_call_id="x",
        tool_name="mine",
        pending=True,
    )
    # The queue finished the job of the dead worker.
    Turn.objects.filter(pk=begun.turn_id).update(job_id=None)


async def test_a_turn_of_a_dead_worker_is_taken_up(ada: Mysis, sandbox: SandboxServer):
    await in_db(abandoned_turn)(ada)
    assert await in_db(recovery.reschedule_lost)() == 1
    assert await in_db(recovery.reschedule_lost)() == 0
    rows = await in_db(log)(ada)
    assert_paired(rows)
    assert rows[-1].content == records.INTERRUPTED
    assert (await in_db(Turn.objects.get)()).outcome == "interrupted"
    assert not await in_db(UnknownOutcome.objects.count)(), "it plays no account yet"
    await fly(ada, "interrupted")
    assert await in_db(Turn.objects.filter(outcome="done").count)() == 1


async def test_a_worker_told_to_end_leaves_the_turn_interrupted_and_due(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    provider.answers.append(
        Reply(body=completion("late"), wait=(gate := provider.arrived.__class__()))
    )
    row = await refreshed(eve)
    assert row.next_job
    turn = asyncio.create_task(take_turn(eve.pk, job_id=row.next_job, trigger="start"))
    assert await asyncio.to_thread(provider.arrived.wait, 20)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    gate.set()
    after = await refreshed(eve)
    assert (after.state, after.next_job is not None) == ("running", True)
    assert (await in_db(Turn.objects.get)()).outcome == "interrupted"


@transaction.atomic
def _opened(begun: records.Begun, wish: model_calls.Wish) -> model_calls.Opened:
    return model_calls.open_call(begun, records.current(begun), wish)


async def test_a_worker_that_was_only_slow_writes_nothing_more(
    ada: Mysis, sandbox: SandboxServer
):
    """Its turn was taken up meanwhile: no step of it may go on."""
    assert ada.next_job is not None
    late = await in_db(records.begin)(ada.pk, job_id=ada.next_job, trigger="start")
    assert late is not None
    view = await in_db(model_calls.look)(late)
    endpoint = await in_db(resolve)("pilot")
    opened = await in_db(_opened)(late, model_calls.Wish(endpoint, 1, 0))
    prepared = model_calls.Prepared(opened, view.assembly, 0, 0)
    await in_db(Turn.objects.filter(pk=late.turn_id).update)(job_id=None)
    assert await in_db(recovery.reschedule_lost)() == 1
    row = await refreshed(ada)
    assert row.next_job is not None
    await in_db(records.begin)(ada.pk, job_id=row.next_job, trigger="interrupted")
    answer = Completion("late", usage=Usage(7, 3))
    for step in (
        lambda: model_calls.look(late),
        lambda: model_calls.keep(late, 2, endpoint, view),
        lambda: answers.record_answer(late, prepared, answer, 1),
        lambda: records.doing(late, "x"),
    ):
        with pytest.raises(records.VoidedError):
            await in_db(step)()
    assert await in_db(log)(ada) == []
    assert await in_db(ModelCall.objects.count)() == 1
    paid = await in_db(Turn.objects.get)(pk=late.turn_id)
    assert (paid.input_tokens, paid.output_tokens) == (7, 3)


async def test_turns_that_are_lost_again_and_again_end_errored(
    ada: Mysis, sandbox: SandboxServer
):
    for _ in range(recovery.LOST_LIMIT):
        row = await refreshed(ada)
        assert row.state == "running"
        begin = in_db(records.begin)
        await begin(ada.pk, job_id=row.next_job or 0, trigger="interrupted")
        await in_db(Turn.objects.filter(outcome=None).update)(job_id=None)
        await in_db(recovery.reschedule_lost)()
    row = await refreshed(ada)
    assert (row.state, row.next_job) == ("errored", None)
    assert "log" in row.last_error
    assert row.failures == 0
    assert (await in_db(actions.start_mysis)(mysis=row, by="x")).lost_turns == 0


async def test_odd_characters_in_a_refusal_do_not_loop(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    provider.refuse(400, "context \x00 too \ud800 long")
    flown = await fly(eve)
    assert flown.state == "errored"
    assert "too" in flown.last_error


async def test_an_action_of_unknown_outcome_puts_the_state_in_doubt(
    ada: Mysis, sandbox: SandboxServer
):
    row = await fly(ada)
    await in_db(capture)(
        username="Ada",
        tool="get_status",
        args={},
        text=(answer := '{"ship": {"cargo_used": 1}}'),
        result=read_result(answer),
    )
    await in_db(abandoned_turn)(row)
    await in_db(recovery.reschedule_lost)()
    doubted = await in_db(GameSnapshot.objects.get)(tool_name="get_status")
    assert "mine" in doubted.stale_reason


async def test_what_a_dead_worker_left_is_read_before_the_model_goes_on(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    name = {"username": "Eve", "empire": "solarian"}
    joins = call("register", json.dumps(name))
    provider.answer(completion(None, tool_calls=[joins]))
    row = await fly(eve)
    await in_db(abandoned_turn)(row)
    await in_db(recovery.reschedule_lost)()
    assert await in_db(UnknownOutcome.objects.count)() == 1
    mines = completion(None, tool_calls=[call("mine", "{}", "again")])
    provider.answer(mines)
    await fly(eve, "interrupted")
    told, again = (await in_db(log)(eve))[-4], (await in_db(log)(eve))[-2]
    assert told.content.startswith(f"{records.INTERRUPTED} get_status says now")
    assert "ship.cargo_used 0" in told.content
    assert told.content in str(provider.requests[-2]["messages"])
    # The tick of the action has not passed: the same is not sent again.
    assert "not_verified" in again.content
    assert not any(one.tool == "mine" for one in sandbox.writes().get("Eve", []))


async def test_too_many_calls_in_one_answer_are_refused_not_lost(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    many = [call("get_version", "{}", f"c{n}") for n in range(answers.MOST_CALLS + 9)]
    provider.answer(completion(None, tool_calls=many))
    provider.answer(completion("Enough."))
    await fly(eve)
    rows = await in_db(log)(eve)
    assert_paired(rows)
    refused = [r for r in rows if "too_many_calls" in r.content]
    assert len(refused) == 9
    assert all(row.is_error for row in refused)
    assert "too_many_calls" in json.dumps(provider.requests[-1]["messages"])


async def test_a_message_that_a_call_showed_costs_no_turn_of_its_own(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    gate = provider.arrived.__class__()
    provider.answers.append(
        Reply(body=completion(None, tool_calls=[call("get_version")]), wait=gate)
    )
    provider.answer(completion("Seen, and done."))
    row = await refreshed(eve)
    assert row.next_job
    turn = asyncio.create_task(take_turn(eve.pk, job_id=row.next_job, trigger="start"))
    assert await asyncio.to_thread(provider.arrived.wait, 20)
    await in_db(actions.send_message)(mysis=eve, text="Wait!", by="operator:x")
    gate.set()
    await turn
    assert "Wait!" in json.dumps(provider.requests[-1]["messages"])
    after = await refreshed(eve)
    assert after.next_job is not None
    assert after.wake_at is not None, "the next turn is a nudge, not the message's"


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
        return set(subject_of(Mysis.objects.get(pk=mysis.pk)).tool_policy)

    offered = {tool["function"]["name"] for tool in provider.requests[0]["tools"]}
    assert "zoea_broadcast" in offered
    assert await in_db(known)(eve) == offered
    assert offered - await in_db(known)(ada) == {"zoea_send_message", "zoea_broadcast"}


async def test_a_turn_that_has_just_ended_is_not_taken_for_a_void_one(
    eve: Mysis,
    sandbox: SandboxServer,
    provider: FakeProvider,
    monkeypatch: pytest.MonkeyPatch,
):
    """The watcher must not cancel a turn because its outcome is written."""
    finish, watched = ending.finish, []

    def end(*args: Any, **kwargs: Any) -> None:
        watched.append(set(stopping.watch.turns))
        finish(*args, **kwargs)

    monkeypatch.setattr(ending, "finish", end)
    provider.answer(completion("Aye."))
    await fly(eve)
    assert watched == [set()]
    assert (await in_db(Turn.objects.get)()).outcome == "done"
