"""Summaries in a turn: asked of a strict provider, checked, kept or refused (L1-L9)."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest
from channels.db import database_sync_to_async as in_db

from agents import actions, context_inputs, usage
from agents.actions import settings
from agents.models import Event, ModelCall, Mysis, Pin, Prompt, Turn, Usage
from agents.runtime import model_calls, turn_rows
from agents.runtime import summary_job as store
from agents.runtime.turn import take_turn
from memory.assembly import history_summaries
from memory.context.summary_prompt import SUMMARY_RULES, build_summary_prompt
from memory.models import ContextPolicy, HistorySummary, SentContext
from tests.agents.runtime.conftest import GOOD, ORDER, fly, refreshed
from tests.factories import make_memory
from tests.fakes.openai import FakeProvider, Reply, call, completion

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.asyncio]


def summaries(mysis: Mysis) -> list[HistorySummary]:
    return list(HistorySummary.objects.filter(mysis=mysis).order_by("pk"))


def kinds(mysis: Mysis) -> list[str]:
    return list(
        Event.objects.filter(mysis=mysis).order_by("pk").values_list("kind", flat=True)
    )


def assert_adds_up(mysis: Mysis) -> None:
    """Calls, turns, the Mysis and its days tell the same sums."""
    names = ("input_tokens", "output_tokens", "cost")
    rows = ModelCall.objects.filter(turn__mysis=mysis)
    by_call = [sum(getattr(call, name) for call in rows) for name in names]
    for turn in Turn.objects.filter(mysis=mysis):
        own = [sum(getattr(c, name) for c in turn.calls.all()) for name in names]
        assert own == [getattr(turn, name) for name in names]
    assert by_call == [getattr(Mysis.objects.get(pk=mysis.pk), name) for name in names]
    kept = usage.add_up(Usage.objects.filter(mysis=mysis))
    assert by_call == [kept[name] for name in names]
    kinds = [call.kind for call in rows]
    assert kept["calls"] == kinds.count("turn")
    assert kept["summaries"] == kinds.count("summary")
    assert kept["errors"] == sum(bool(call.error) for call in rows)
    assert kept["latency_ms"] == sum(call.latency_ms for call in rows)


async def test_a_summary_is_made_before_the_call_and_used_by_it(
    worn: Mysis, provider: FakeProvider
):
    """L1, L4-L6, L12: ask, take the answer, and send the summary in its place."""
    provider.answer(completion(GOOD))
    provider.answer(completion("Aye."))
    after = await fly(worn)
    assert after.last_error == ""
    asked, sent = provider.requests
    assert asked["messages"][-1]["content"].endswith(SUMMARY_RULES)
    assert asked["tools"] == sent["tools"]
    blocks = [m for m in sent["messages"] if "Goals/Intent" in str(m["content"])]
    assert len(blocks) == 1
    assert blocks[0]["content"].endswith(f"Last request from user was: {ORDER}")
    assert "Step 3." not in json.dumps(sent["messages"])
    assert "Step 19." in json.dumps(sent["messages"])
    (row,) = await in_db(summaries)(worn)
    assert (row.status, row.generation, row.attempts) == ("active", 1, 1)
    assert row.tokens_after < row.tokens_before
    assert (row.input_tokens, row.output_tokens, row.turn_number) == (1000, 200, 1)
    assert row.error == ""
    assert "context.compacted" in await in_db(kinds)(worn)
    await in_db(assert_adds_up)(worn)
    kept = await in_db(lambda: list(ModelCall.objects.order_by("pk")))()
    assert [(call.kind, call.number) for call in kept] == [("summary", 1), ("turn", 1)]
    assert [call.finish_reason for call in kept] == ["stop", "stop"]
    turn = await in_db(Turn.objects.get)()
    assert (turn.input_tokens, turn.iterations) == (2000, 1)


async def test_a_second_summary_takes_the_first_one_up(
    worn: Mysis, provider: FakeProvider
):
    """A14, I22: one block, spans that follow each other, the first in the request."""
    provider.answer(completion(GOOD))
    provider.answer(completion("Aye."))
    await fly(worn)
    await in_db(_more)(worn)
    provider.answer(completion(GOOD.replace("Dock.", "Undock.")))
    provider.answer(completion("Aye."))
    await fly(worn)
    first, second = await in_db(summaries)(worn)
    assert (first.status, second.status) == ("replaced", "active")
    assert (second.generation, second.first_id) == (2, second.first_id)
    assert first.through_id < second.first_id <= second.through_id
    asked, sent = provider.requests[-2:]
    assert json.dumps(asked["messages"]).count("[Summary 1 of") == 1
    assert json.dumps(sent["messages"]).count("[Summary ") == 1
    assert "Undock." in json.dumps(sent["messages"])


def _more(mysis: Mysis, words: int = 60) -> None:
    for number in range(20, 40):
        text = f"Step {number}. " + "word " * words
        make_memory(mysis, role="assistant", content=text)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (completion("I would rather not."), "tags"),
        (completion(None, tool_calls=[call("get_status")]), "calls a tool"),
        (completion("<summary>Something about ore.</summary>"), "lost"),
    ],
)
async def test_a_bad_summary_is_asked_for_once_more_and_told_why(
    worn: Mysis, provider: FakeProvider, bad: dict[str, Any], why: str
):
    provider.answer(bad)
    provider.answer(completion(GOOD))
    provider.answer(completion("Aye."))
    await fly(worn)
    first, again, sent = provider.requests
    assert why in again["messages"][-1]["content"]
    assert again["messages"][:-1] == first["messages"][:-1]
    assert "was refused" not in json.dumps(sent["messages"])
    (row,) = await in_db(summaries)(worn)
    assert (row.status, row.attempts, row.input_tokens) == ("active", 2, 2000)
    await in_db(assert_adds_up)(worn)


async def test_two_bad_summaries_leave_everything_and_the_turn_goes_on(
    worn: Mysis, provider: FakeProvider
):
    """I23, I24: at most two attempts, then the deterministic view."""
    for _ in range(2):
        provider.answer(completion("No."))
    provider.answer(completion("Aye."))
    after = await fly(worn)
    assert after.last_error == ""
    assert len(provider.requests) == 3
    (row,) = await in_db(summaries)(worn)
    assert (row.status, row.text, row.attempts) == ("failed", "", 2)
    assert "tags" in row.error
    sent = await in_db(SentContext.objects.get)()
    assert sent.stats["status"] == "summary_failed"
    assert "error" in await in_db(kinds)(worn)
    # L9, cool-down: the next turns do not ask.
    provider.answer(completion("Aye."))
    await fly(worn)
    assert len(provider.requests) == 4
    newest = await in_db(SentContext.objects.order_by("-pk").first)()
    assert newest.stats["status"] == "cooling_down"


async def test_a_literal_that_is_lost_twice_is_accepted_and_named(
    worn: Mysis, provider: FakeProvider
):
    lossy = completion("<summary>Sell 40 ore_iron.</summary>")
    provider.answer(lossy)
    provider.answer(lossy)
    provider.answer(completion("Aye."))
    await fly(worn)
    (row,) = await in_db(summaries)(worn)
    assert (row.status, row.error) == ("active", "It does not name 7.")


async def test_pins_are_checked_where_the_history_shows_them(
    worn: Mysis, provider: FakeProvider
):
    await in_db(Pin.objects.create)(mysis=worn, text="Avoid sys_9 and ore_iron.")
    provider.answer(completion("<summary>Sell 40, never below 7.</summary>"))
    provider.answer(completion(GOOD))
    provider.answer(completion("Aye."))
    await fly(worn)
    said = provider.requests[1]["messages"][-1]["content"]
    assert "lost ore_iron" in said
    assert "sys_9" not in said.split("was refused")[1]


async def test_a_request_that_is_too_long_is_made_shorter(
    worn: Mysis, provider: FakeProvider
):
    """The older half is folded; what is left out of it stays in the view."""
    provider.refuse(400, "This model's maximum context length is 4096 tokens.")
    provider.answer(completion(GOOD))
    provider.answer(completion("Aye."))
    await fly(worn)
    first, again, sent = provider.requests
    assert len(json.dumps(again["messages"])) < len(json.dumps(first["messages"]))
    (row,) = await in_db(summaries)(worn)
    assert row.status == "active"
    told = json.dumps(sent["messages"])
    assert [f"Step {n}." in told for n in (0, 17)] == [False, True]


async def test_the_breaker_opens_after_three_failures_and_closes_again(worn: Mysis):
    def broken() -> list[tuple[bool, int]]:
        span = history_summaries.Span(worn.pk, 1, 2, 0, "x")
        found = []
        for turn in (1, 10, 20):
            effort = history_summaries.Effort(turn, "m")
            history_summaries.record_failure(span, error="No.", effort=effort)
            known = history_summaries.check_compaction(worn.pk, turn=turn + 1)
            found.append((known.breaker_open, known.cooling_turns))
        later = history_summaries.check_compaction(
            worn.pk, turn=21 + history_summaries.BREAKER_TURNS
        )
        return [*found, (later.breaker_open, later.cooling_turns)]

    assert await in_db(broken)() == [(False, 5), (False, 5), (True, 0), (False, 0)]


async def test_a_summary_of_another_history_is_not_committed(
    worn: Mysis, provider: FakeProvider
):
    """I23: the generation and the messages are checked under the row lock."""
    assert worn.next_job is not None
    begun = await in_db(turn_rows.begin_turn)(
        worn.pk, job_id=worn.next_job, trigger="start"
    )
    assert begun is not None

    def race() -> str:
        wanted = store.build_request(model_calls.assemble_next(begun))
        worn.memories.filter(pk=wanted.span.first_id).update(content="Edited.")
        effort = history_summaries.Effort(1, "m")
        with pytest.raises(history_summaries.Outdated, match="messages"):
            store.commit_summary(begun, wanted, "short", effort)
        wanted = store.build_request(model_calls.assemble_next(begun))
        store.commit_summary(begun, wanted, "short", effort)
        with pytest.raises(history_summaries.Outdated, match="Another summary"):
            store.commit_summary(begun, wanted, "short", effort)
        return HistorySummary.objects.get().text

    assert await in_db(race)() == "short"


async def test_a_stop_while_a_summary_is_made_leaves_nothing(
    worn: Mysis, provider: FakeProvider
):
    waiting = Reply(body=completion(GOOD), wait=threading.Event())
    provider.answers.append(waiting)
    assert worn.next_job is not None
    turn = asyncio.create_task(
        take_turn(worn.pk, job_id=worn.next_job, trigger="start")
    )
    assert await asyncio.to_thread(provider.arrived.wait, 20)
    await in_db(actions.stop_mysis)(mysis=worn, by="test")
    async with asyncio.timeout(60):
        await turn
    assert waiting.wait is not None
    waiting.wait.set()
    assert (await in_db(Turn.objects.get)()).outcome == "stopped"
    assert (await refreshed(worn)).state == "stopped"
    assert await in_db(summaries)(worn) == []
    assert "context.compacted" not in await in_db(kinds)(worn)


@pytest.mark.parametrize("strategy", ["summary", "tiered"])
async def test_the_template_of_the_admin_is_what_is_asked(
    worn: Mysis, provider: FakeProvider, strategy: str
):
    """By whichever strategy, and again where a first answer was refused or too slow."""

    def edit() -> None:
        policy = ContextPolicy.objects.get()
        policy.strategy = strategy
        # The other one brings its view down to a share of the window: to nothing here.
        policy.options |= {"lo": 0} if strategy == "tiered" else {}
        policy.save()
        settings.install_summary_prompt()
        prompt = Prompt.objects.get(name=settings.SUMMARY_PROMPT_NAME)
        actions.save_prompt(prompt=prompt, text="Kurz, bitte.", by="test")

    await in_db(edit)()
    # Its request is too long at first: a shorter history is asked of, in the same words.
    provider.refuse(400, "This model's maximum context length is 4096 tokens.")
    provider.answer(completion(GOOD))
    provider.answer(completion("Aye."))
    await fly(worn)
    asked = [each["messages"][-1]["content"] for each in provider.requests[:2]]
    assert asked == [build_summary_prompt("Kurz, bitte.", 300)] * 2


async def test_a_summary_can_be_taken_back(worn: Mysis, provider: FakeProvider):
    provider.answer(completion(GOOD))
    provider.answer(completion("Aye."))
    await fly(worn)

    def back() -> tuple[str, Any]:
        row = HistorySummary.objects.get()
        older = history_summaries.revert_summary(row, turn=1)
        row.refresh_from_db()
        with pytest.raises(history_summaries.Outdated):
            history_summaries.revert_summary(row, turn=1)
        return row.status, older

    assert await in_db(back)() == ("reverted", None)


async def test_the_report_of_the_last_call_counts_as_what_the_estimate_missed(
    worn: Mysis, provider: FakeProvider
):
    """L2, L7, L8, A13, A18: what the provider counted serves as the probe."""
    await in_db(ContextPolicy.objects.update)(options={"threshold": 0})
    provider.answer(completion("Aye."))
    await fly(worn)
    mysis = await refreshed(worn)
    sent = await in_db(SentContext.objects.get)()
    known = (await in_db(context_inputs.preview_context)(mysis)).request.compaction
    assert (known.reported_tokens, known.reported_through) == (1000, sent.last_id)
    counted = sum(sent.stats["tokens_by_category"].values())
    assert known.reported_estimate == counted
    await in_db(Mysis.objects.update)(model="pilot")
    other = (
        await in_db(context_inputs.preview_context)(await refreshed(worn))
    ).request.compaction
    assert other.reported_tokens == 0, "another model counts otherwise"


async def test_a_view_over_budget_is_summarised_too(
    worn: Mysis, provider: FakeProvider
):
    """What is dropped from the view is in the request, and counts as replaced."""
    await in_db(ContextPolicy.objects.update)(budget_tokens=20_000, budget_reserve=500)
    await in_db(_more)(worn, words=900)
    provider.answer(completion(GOOD))
    provider.answer(completion("Aye."))
    await fly(worn)
    (row,) = await in_db(summaries)(worn)
    assert (row.status, row.error) == ("active", "")
    assert row.tokens_before > 1_000
    sent = await in_db(SentContext.objects.get)()
    assert sent.stats["summary_calls"] == 1


async def test_a_provider_that_is_out_of_order_is_no_bad_summary(
    worn: Mysis, provider: FakeProvider
):
    """The turn fails as its own call would, and nothing counts for the breaker."""
    provider.refuse(503, "Overloaded.")
    after = await fly(worn)
    assert "Overloaded" in after.last_error
    assert (after.state, after.next_job is not None) == ("running", True)
    assert await in_db(summaries)(worn) == []
    assert len(provider.requests) == 1


async def test_a_request_that_stays_too_long_is_not_made_again(
    worn: Mysis, provider: FakeProvider
):
    options = {"threshold": 500, "keep_recent": 2, "max_summary_tokens": 900}
    await in_db(ContextPolicy.objects.update)(options=options)
    provider.refuse(400, "maximum context length")
    provider.answer(completion("Aye."))
    after = await fly(worn)
    assert after.last_error == ""
    assert len(provider.requests) == 2
    (row,) = await in_db(summaries)(worn)
    assert (row.status, row.attempts) == ("failed", 1)


async def test_any_error_is_remembered_and_the_turn_goes_on(
    worn: Mysis, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
):
    """I23: else every turn would meet it again."""

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a fault of our own")

    monkeypatch.setattr(store, "check_summary", broken)
    provider.answer(completion(GOOD))
    provider.answer(completion("Aye."))
    after = await fly(worn)
    assert after.last_error == ""
    (row,) = await in_db(summaries)(worn)
    assert (row.status, row.error) == ("failed", "a fault of our own")


async def test_what_was_summarised_is_still_found(worn: Mysis, provider: FakeProvider):
    """L11, W9: the log keeps everything, and the search tool finds it."""
    provider.answer(completion(GOOD))
    looking = call("zoea_search_messages", '{"query": "Step 3"}')
    provider.answer(completion(None, tool_calls=[looking]))
    provider.answer(completion("Aye."))
    await fly(worn)
    assert "Step 3." not in json.dumps(provider.requests[1]["messages"])
    assert "Step 3." in provider.messages[-1]["content"]
