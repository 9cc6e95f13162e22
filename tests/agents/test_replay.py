"""A call that was made, under other settings: the log as it stood before it."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from agents import actions, context_inputs
from agents.models import ModelCall, Mysis, Pin
from agents.views import context
from memory.assembly import prepare, replay
from memory.models import (
    ContextPolicy,
    GameSnapshot,
    HistorySummary,
    Memory,
    SentContext,
)
from tests.browser import scenes
from tests.factories import make_memory, make_mysis, make_provider, make_turn


@pytest.fixture
def mysis(db: None) -> Mysis:
    """One that has much behind it: talk, a game, orders, options of its own."""
    made = make_mysis(name="Ada")
    options = {"hi": 0.5, "lo": 0.2, "keep_results": 1}
    made.policy = ContextPolicy.objects.create(
        name="own", strategy="tiered", options=options, budget_tokens=20_000
    )
    made.save()
    scenes.add_account(made)
    Pin.objects.create(mysis=made, text="Never attack miners.", author="ann")
    scenes.add_conversation(made, exchanges=12)
    return made


def call(mysis: Mysis, **values: Any) -> SentContext:
    """A model call, with what it was sent."""
    turn = make_turn(mysis, outcome="done")
    made = ModelCall.objects.create(turn=turn, number=1, model=mysis.model)
    view = context_inputs.preview_context(mysis, **values)
    return prepare.record_call(call_id=made.pk, prepared=view)


def then(row: SentContext) -> replay.PastCall:
    sent = SentContext.objects.get(pk=row.pk)
    return replay.load_past_call(sent, context_inputs.build_subject(sent.mysis))


def live_on(mysis: Mysis) -> None:
    """Everything that a call depends on changes after it."""
    scenes.add_conversation(mysis, exchanges=4)
    make_memory(mysis, content="Forget all that.", sender="operator:ann")
    GameSnapshot.objects.all().delete()
    mysis.pins.all().delete()
    actions.save_prompt(prompt=actions.get_default_prompt(), text="Another.", by="ann")
    ContextPolicy.objects.update(options={}, budget_tokens=90_000)
    mysis.nudges = 7
    mysis.save()
    call(Mysis.objects.get(pk=mysis.pk))


@pytest.mark.parametrize(
    ("dialect", "speech"), [("openai", None), ("anthropic", "I wait.")]
)
def test_under_its_own_settings_it_comes_out_as_it_was_sent(
    mysis: Mysis, dialect: str, speech: str | None
):
    make_provider(
        name="claude", kind=dialect, default_model="claude-sonnet-4-5", key="k"
    )
    Mysis.objects.update(model="claude:claude-sonnet-4-5")
    mysis.refresh_from_db()
    if speech:
        # A view that ends with an answer ends with a nudge.
        make_memory(mysis, role="assistant", content=speech)
    call(mysis)
    make_memory(mysis, content="Go on.")
    row = call(mysis)
    assert row.dialect == dialect
    live_on(mysis)
    found = then(row)
    made = context.assemble_again(found)
    assert made.assembly.messages == found.shown.messages
    assert made.digest == row.digest
    assert made.assembly.stats["tokens_by_category"] == row.stats["tokens_by_category"]
    assert context.measure_likeness(found) == context.Likeness(True, 100, ())


@pytest.mark.parametrize("strategy", ["window", "snapshot-window", "mask", "summary"])
def test_under_another_strategy_it_is_what_a_preview_was_then(
    mysis: Mysis, strategy: str
):
    row = call(mysis)
    before = context_inputs.preview_context(
        Mysis.objects.get(pk=mysis.pk), strategy=strategy
    ).assembly
    SentContext.objects.exclude(pk=row.pk).delete()
    live_on(mysis)
    made = context.assemble_again(then(row), strategy=strategy).assembly
    # The preview was made after the call, and may show values as changed since it.
    assert [m["content"] for m in made.messages[:-1]] == [
        m["content"] for m in before.messages[:-1]
    ]
    assert made.ledger == before.ledger


def test_the_summary_of_then_is_used_even_if_it_was_taken_back(mysis: Mysis):
    rows = list(Memory.objects.filter(mysis=mysis).order_by("pk"))

    def summary(generation: int, text: str, status: str, through: int) -> None:
        HistorySummary.objects.create(
            mysis=mysis, first_id=rows[0].pk, through_id=rows[through].pk, text=text,
            generation=generation, status=status, history_hash="0" * 64,
        )  # fmt: skip

    summary(1, "We mined.", "active", 3)
    row = call(mysis)
    HistorySummary.objects.update(status="reverted")
    summary(1, "We did nothing at all.", "active", 6)
    found = then(row)
    assert found.before.summary is not None
    assert found.before.summary.text == "We mined."
    assert context.assemble_again(found).digest == row.digest


def test_what_is_not_kept_is_told(mysis: Mysis):
    row = call(mysis, strategy="tiered", options={"state_block": False})
    SentContext.objects.update(
        stats={k: v for k, v in row.stats.items() if k != "options"}
    )
    Memory.objects.filter(pk=row.first_id or 0).delete()
    found = context.measure_likeness(then(row))
    assert not found.same
    assert found.percent < 100
    state, options, gone = found.unknown
    assert "game state" in state
    assert "options" in options
    assert gone.startswith("1 of the messages")


def test_the_page_of_a_past_call_tries_other_settings(admin: Client, mysis: Mysis):
    row = call(mysis)
    live_on(mysis)
    counts = Memory.objects.count(), SentContext.objects.count()
    address = f"/turns/{row.call.turn_id}/calls/1/context/"
    text = admin.get(address).content.decode()
    assert "same bytes as sent" in text
    assert "The past is all here." not in text
    assert ">as it was sent</option>" in text
    answer = admin.get(address, {"strategy": "window", "window": "4"})
    text = answer.content.decode()
    assert "would have been sent" in text
    assert "The past is all here." in text
    assert "same bytes as sent" not in text
    assert dict(answer.context["shown"].counts)["out_of_window"] > 10
    assert "Forget all that." not in text
    for query in (
        {"against": "window", "beside": "4"},
        {"strategy": "window", "window": "4", "view": "compare"},
    ):
        found = admin.get(address, query).context["comparison"]
        assert (found.a.name, found.a.strategy) == ("as it was sent", "tiered")
        assert (found.b.name, found.b.strategy) == ("what if", "window")
        assert found.a.tokens == row.stats["tokens_out"]
        assert found.differing > 10
    for view in ("changes", "raw", "tools", "compare"):
        query = {"budget": "4000", "view": view}
        assert admin.get(address, query).status_code == 200
    assert (Memory.objects.count(), SentContext.objects.count()) == counts


@pytest.mark.parametrize(
    ("query", "field"),
    [("strategy=full&window=3", "window"), ("against=full&beside=4", "beside")],
)
def test_a_what_if_of_the_past_that_cannot_be_says_why(
    admin: Client, mysis: Mysis, query: str, field: str
):
    row = call(mysis)
    answer = admin.get(f"/turns/{row.call.turn_id}/calls/1/context/?{query}")
    assert answer.status_code == 422
    assert list(answer.context["form"].errors) == [field]


@pytest.mark.parametrize("stats", [{}, {"tokens_by_category": {}, "budget": 9_000}])
def test_a_call_without_its_statistics_is_shown_and_tried(
    admin: Client, mysis: Mysis, stats: dict[str, Any]
):
    row = call(mysis)
    SentContext.objects.update(stats=stats)
    ModelCall.objects.update(input_tokens=4_711)
    address = f"/turns/{row.call.turn_id}/calls/1/context/"
    queries: tuple[dict[str, str], ...] = (
        {}, {"strategy": "window", "window": "4"}, {"against": "full"},
        {"budget": "4000", "view": "compare"},
    )  # fmt: skip
    for query in queries:
        assert admin.get(address, query).status_code == 200
    assert "budget of then is not kept" in " ".join(replay.list_guesses(then(row)))
    # Nor does the call after it need them.
    assert context_inputs.preview_context(mysis).assembly.messages


def test_a_call_whose_strategy_is_gone_says_that_it_cannot_be_made_again(
    admin: Client, mysis: Mysis
):
    row = call(mysis)
    SentContext.objects.update(strategy="dreams")
    address = f"/turns/{row.call.turn_id}/calls/1/context/"
    assert "same bytes as sent" in admin.get(address).content.decode()
    for query in ({"strategy": "window"}, {"against": "full"}):
        answer = admin.get(address, query)
        assert answer.status_code == 200
        text = answer.content.decode()
        assert "Cannot be made again." in text
        assert "dreams&quot; is unknown" in text
    assert admin.get(address, {"budget": "4000"}).status_code == 422


@pytest.mark.parametrize("speech", [None, "I wait."])
def test_one_message_comes_out_as_it_was_sent(mysis: Mysis, speech: str | None):
    """Its mission, its orders and its turns are those of then."""
    ContextPolicy.objects.update(strategy="coalesced", options={})
    mysis.refresh_from_db()
    if speech:
        make_memory(mysis, role="assistant", content=speech)
    row = call(mysis)
    assert row.strategy == "coalesced"
    live_on(mysis)
    found = then(row)
    made = context.assemble_again(found)
    assert made.assembly.messages == found.shown.messages
    assert context.measure_likeness(found) == context.Likeness(True, 100, ())
    del row.stats["inputs"]
    row.save()
    assert replay.NO_INPUTS in then(row).unknown


def test_the_page_lays_each_turn_beside_what_is_told_of_it(mysis: Mysis, admin: Client):
    """Of the next call and of a past one; another strategy tells none."""
    next_page = f"/myses/{mysis.pk}/context/?view=steps"
    assert "Only the strategy" in admin.get(next_page).content.decode()
    policy = {"tool_call_limit": 2, "println_limit": 0}
    ContextPolicy.objects.update(strategy="coalesced", options=policy)
    mysis.refresh_from_db()
    row = call(mysis)
    past = f"/turns/{row.call.turn_id}/calls/{row.call.number}/context/?view=steps"
    for address in (next_page, past):
        page = admin.get(address).content.decode()
        assert page.count("told-step") > 2
        assert "+- Compression ---" in page
        assert "over the limit" in page
        assert "Nothing is told of it." in page
