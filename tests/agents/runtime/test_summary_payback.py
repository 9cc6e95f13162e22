"""A summary that never pays back waits, in flight, until the budget needs it."""

from __future__ import annotations

import pytest_asyncio
from channels.db import database_sync_to_async as in_db

from agents import context_inputs
from agents.models import Event, ModelCall, Mysis
from agents.runtime.summary_job import SummaryRequest, describe_summary
from memory.context.payback import Payback
from memory.models import ContextPolicy, HistorySummary, SentContext
from sandbox.game.testing import SandboxServer
from tests.agents.runtime.conftest import GOOD, fly
from tests.factories import make_memory
from tests.fakes.openai import FakeProvider, completion

WORDS = "word " * 60


@pytest_asyncio.fixture
async def worn(eve: Mysis, sandbox: SandboxServer) -> Mysis:
    """One on a priced model, whose threshold is long passed."""
    await in_db(_wear)(eve)
    return eve


def _wear(mysis: Mysis) -> None:
    options = {"threshold": 500, "keep_recent": 2, "max_summary_tokens": 300}
    mysis.policy = ContextPolicy.objects.create(
        name="soon", strategy="summary", options={**options, "allow": ["get_status"]}
    )
    mysis.max_iterations = 1
    mysis.save()
    make_memory(mysis, content="Sell 40 units of ore_iron at Earth Station.")
    _go_on(mysis, 20)


def _go_on(mysis: Mysis, steps: int) -> None:
    for number in range(steps):
        make_memory(mysis, role="assistant", content=f"Step {number}. {WORDS}")


def _leave_room(mysis: Mysis, tokens: int) -> None:
    """Give its policy a budget that needs a summary after so many tokens more."""
    fresh = Mysis.objects.get(pk=mysis.pk)
    stats = context_inputs.preview_context(fresh).assembly.stats
    size = sum(stats["tokens_by_category"].values())
    ContextPolicy.objects.update(
        budget_tokens=round((size + tokens) / 0.8), budget_reserve=0
    )


async def test_it_waits_and_is_made_when_the_budget_needs_it(
    worn: Mysis, provider: FakeProvider
):
    # The first turn brings the tools, which count.
    await in_db(ContextPolicy.objects.update)(options={"threshold": 0})
    provider.answer(completion("Aye."))
    await fly(worn)
    await in_db(_set_threshold)(500)
    await in_db(_leave_room)(worn, 160)
    provider.answer(completion("Aye again."))
    await fly(worn)
    sent = await in_db(SentContext.objects.latest)("pk")
    assert sent.stats["status"] == "not_worth_it"
    assert "is not made before the budget needs it." in sent.stats["reason"]
    assert sent.stats["summarized"] == sent.stats["units_dropped"] == 0
    assert await in_db(HistorySummary.objects.count)() == 0
    await in_db(_go_on)(worn, 30)
    provider.answer(completion(GOOD))
    provider.answer(completion("Aye at last."))
    await fly(worn)
    row = await in_db(HistorySummary.objects.get)()
    assert row.status == "active"
    sent = await in_db(SentContext.objects.latest)("pk")
    # The budget lost nothing: what is gone is in the summary.
    assert sent.stats["units_dropped"] == 0
    assert sent.stats["summarized"] > 0
    event = await in_db(Event.objects.get)(kind="context.compacted")
    assert event.data["payback"]["needed"] is True
    assert event.data["payback"]["tokens"] > 0
    assert await in_db(ModelCall.objects.filter(kind="summary").count)() == 1


def _set_threshold(tokens: int) -> None:
    policy = ContextPolicy.objects.get()
    options = {"keep_recent": 2, "max_summary_tokens": 300, "allow": ["get_status"]}
    policy.options = {**options, "threshold": tokens}
    policy.save()


def test_what_it_saves_is_said_before_it_is_asked_for():
    def said(payback: Payback | None) -> str:
        asked = SummaryRequest(None, [], None, 1, 1, 1, (), len, payback)  # type: ignore[arg-type]
        return describe_summary(asked)

    assert said(None) == "summarising"
    assert said(Payback(9_200, 0.1, 0.4, 40)) == (
        "summarising: saves 9,200 tokens a call, pays back after 4 calls"
    )
    assert said(Payback(9_200, 0.1, 0.4, 0, needed=True)) == (
        "summarising: saves 9,200 tokens a call, the budget needs it"
    )
