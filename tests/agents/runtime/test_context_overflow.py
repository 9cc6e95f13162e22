"""A context that the provider has no room for: a smaller one, once (never a loop)."""

from __future__ import annotations

from typing import Any

import pytest
from channels.db import database_sync_to_async as in_db

from agents import context_inputs
from agents.context_inputs import fit_budget, narrow_budget
from agents.llm.endpoints import resolve
from agents.llm.model_types import Endpoint, read_longest_answer
from agents.models import ModelCall, Mysis, Turn
from agents.runtime import model_calls
from memory.assembly.prepare import PreparedRequest
from memory.context.types import Budget
from memory.models import ContextPolicy
from sandbox.game.testing import SandboxServer
from tests.agents.runtime.conftest import fly
from tests.factories import make_memory
from tests.fakes.openai import FakeProvider, completion

pytestmark = pytest.mark.django_db(transaction=True)
TOO_LONG = (
    "This model's maximum context length is 20000 tokens. However, your messages "
    "resulted in 21333 tokens. Please reduce the length of the messages."
)


def _fill(mysis: Mysis) -> None:
    # Without summaries, which would be asked for in between.
    mysis.policy = ContextPolicy.objects.create(name="all", strategy="full")
    mysis.save()
    for number in range(40):
        text = f"Step {number}. " + "word " * 300
        make_memory(mysis, role="assistant", content=text)


async def test_a_smaller_context_is_sent_once(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    await in_db(_fill)(eve)
    provider.refuse(400, TOO_LONG)
    provider.answer(completion("Aye."))
    after = await fly(eve)
    assert (after.last_error, after.failures) == ("", 0)
    first, second = (len(str(request["messages"])) for request in provider.requests)
    assert second < first * 0.8
    refused, answered = await in_db(lambda: list(ModelCall.objects.order_by("pk")))()
    assert "maximum context length" in refused.error
    assert (answered.error, answered.input_tokens) == ("", 1000)
    assert (await in_db(Turn.objects.get)()).outcome == "done"


@pytest.mark.parametrize(("most", "told"), [(1, 0), (2, 2)])
async def test_the_smaller_context_takes_no_iteration(
    most: int,
    told: int,
    eve: Mysis,
    provider: FakeProvider,
    sandbox: SandboxServer,
    monkeypatch: pytest.MonkeyPatch,
):
    await in_db(_fill)(eve)
    await in_db(Mysis.objects.update)(max_iterations=most)
    left = []
    assemble = model_calls.assemble_next

    def watch(*args: Any, **more: Any) -> PreparedRequest:
        left.append(assemble(*args, **more))
        return left[-1]

    monkeypatch.setattr(model_calls, "assemble_next", watch)
    provider.refuse(400, TOO_LONG)
    provider.answer(completion("Aye."))
    after = await fly(eve)
    assert [view.subject.turns_left for view in left] == [told, told]
    assert (after.last_error, after.nudges) == ("", 1)
    turn = await in_db(Turn.objects.get)()
    assert (turn.outcome, turn.iterations) == ("done", 2)


async def test_a_limit_that_seemed_kept_is_met_all_the_same(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    """Our count was wrong: the view that it calls small enough is not sent again."""
    await in_db(_fill)(eve)
    provider.refuse(400, TOO_LONG.replace("20000", "120000"))
    provider.answer(completion("Aye."))
    after = await fly(eve)
    assert after.last_error == ""
    first, second = (len(str(request["messages"])) for request in provider.requests)
    assert second < first * 0.8
    assert after.narrowed_view() > 0


async def test_a_guess_holds_for_its_mysis_and_is_remembered(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    await in_db(_fill)(eve)
    window = (await in_db(resolve)(eve.model)).window
    budget = (await in_db(context_inputs.build_subject)(eve)).budget
    provider.refuse(413, "Payload too large.")
    after = await fly(eve)
    assert (await in_db(resolve)(eve.model)).window == window
    first, second = (len(str(one["messages"])) for one in provider.requests)
    assert second < first * 0.8
    now = (await in_db(context_inputs.build_subject)(after)).budget
    assert now.tokens - now.reserve == after.narrowed_view() < budget.tokens * 0.8
    after.model = "strict:another"
    assert after.narrowed_view() == 0


async def test_a_guess_that_was_refused_is_forgotten(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    await in_db(_fill)(eve)
    for _ in range(2):
        provider.refuse(413, "Payload too large.")
    after = await fly(eve)
    assert after.state == "errored"
    assert (after.view_tokens, after.narrowed_view()) == (0, 0)


async def test_a_second_refusal_ends_the_turn_with_its_reason(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    await in_db(_fill)(eve)
    provider.refuse(400, TOO_LONG)
    provider.refuse(400, TOO_LONG)
    after = await fly(eve)
    assert len(provider.requests) == 2
    assert after.state == "errored"
    assert "maximum context length" in after.last_error


async def test_another_refusal_is_not_tried_again(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    provider.refuse(401, "Incorrect API key provided.")
    after = await fly(eve)
    assert len(provider.requests) == 1
    assert after.state == "errored"
    assert "API key" in (await in_db(ModelCall.objects.get)()).error


# --- The room for an answer beside the view, in the window of the model.


@pytest.mark.parametrize(
    ("window", "answer", "budget"),
    [
        (128_000, 0, Budget(32_000, 4_000)),
        # The window has room for both: the budget stays as the policy has it.
        (128_000, 60_000, Budget(32_000, 4_000)),
        (40_000, 20_000, Budget(32_000, 12_000)),
        (16_000, 8_000, Budget(16_000, 8_000)),
        # More than the window: the provider will say so, with the window in its words.
        (16_000, 64_000, Budget(16_000, 12_000)),
        (8_192, 0, Budget(8_192, 2_048)),
    ],
)
def test_view_and_answer_fit_the_window_together(
    window: int, answer: int, budget: Budget
):
    policy = ContextPolicy(budget_tokens=32_000, budget_reserve=4_000)
    endpoint = Endpoint("x", "openai", "m", window)
    assert fit_budget(policy, endpoint, answer) == budget


def test_the_longest_answer_is_what_the_request_says():
    chat = Endpoint("x", "openai", "m", 1)
    claude = Endpoint("x", "anthropic", "m", 1)
    assert read_longest_answer({"max_tokens": 500}, claude) == 500
    assert read_longest_answer({}, claude) == 8_000
    assert read_longest_answer({}, chat) == read_longest_answer({}, None) == 0


def test_a_narrowed_budget_keeps_its_reserve():
    assert narrow_budget(Budget(32_000, 4_000), 0) == Budget(32_000, 4_000)
    assert narrow_budget(Budget(32_000, 4_000), 9_000) == Budget(13_000, 4_000)
    assert narrow_budget(Budget(32_000, 4_000), 90_000) == Budget(32_000, 4_000)
