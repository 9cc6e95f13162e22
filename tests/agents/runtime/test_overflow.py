"""A context that the provider has no room for: a smaller one, once (never a loop)."""

from __future__ import annotations

import pytest
from channels.db import database_sync_to_async as in_db

from agents.game.sandbox.testing import SandboxServer
from agents.models import ModelCall, Mysis, Turn
from memory.models import ContextPolicy
from tests.agents.llm.fake_provider import FakeProvider, completion
from tests.factories import make_memory

from .conftest import fly

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.asyncio]
TOO_LONG = (
    "This model's maximum context length is 19000 tokens. However, your messages "
    "resulted in 20333 tokens. Please reduce the length of the messages."
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
