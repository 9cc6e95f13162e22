"""A request that was too long is told from every other refusal, over real HTTP."""

from __future__ import annotations

import pytest

from agents.llm.context_windows import is_overflow, read_limit
from agents.llm.model_types import ModelError, is_missing_model
from tests.agents.llm.anthropic import make_endpoint
from tests.agents.llm.recorded import MISSING, OTHERS, OVERFLOWS, Refusal
from tests.agents.llm.test_complete import endpoint, failing
from tests.fakes.anthropic import FakeAnthropic
from tests.fakes.openai import FakeProvider


async def refused(
    refusal: Refusal, provider: FakeProvider, anthropic: FakeAnthropic
) -> ModelError:
    """The error that the recorded answer becomes."""
    if refusal.anthropic:
        anthropic.answer(refusal.body, refusal.status)
        return await failing(make_endpoint(anthropic))
    provider.answer(refusal.body, refusal.status)
    return await failing(endpoint(provider))


@pytest.mark.parametrize("refusal", OVERFLOWS, ids=str)
async def test_too_long(
    refusal: Refusal, provider: FakeProvider, anthropic: FakeAnthropic
) -> None:
    error = await refused(refusal, provider, anthropic)
    assert is_overflow(error)
    assert read_limit(error) == refusal.limit
    assert error.status == refusal.status
    # The same request would be refused again, whatever the status says.
    assert not error.retryable
    assert "smaller budget" in error.remedy


@pytest.mark.parametrize("refusal", OTHERS, ids=str)
async def test_something_else(
    refusal: Refusal, provider: FakeProvider, anthropic: FakeAnthropic
) -> None:
    error = await refused(refusal, provider, anthropic)
    assert not is_overflow(error)
    assert read_limit(error) is None
    assert error.retryable == (refusal.status in (429, 529))
    assert is_missing_model(error.detail) == (refusal.name == "openai-model")


@pytest.mark.parametrize("refusal", MISSING, ids=str)
async def test_a_model_that_is_not_there(
    refusal: Refusal, provider: FakeProvider, anthropic: FakeAnthropic
) -> None:
    error = await refused(refusal, provider, anthropic)
    assert not is_overflow(error)
    assert not error.retryable
    assert is_missing_model(error.detail)
    assert "Check the name of the model" in error.remedy
    assert "Check the name of the model" in str(error)


async def test_an_error_inside_a_good_answer(provider: FakeProvider) -> None:
    """Routers answer 200 before they know; the error has its status in its code."""
    for refusal in (r for r in OVERFLOWS if r.name.startswith("openrouter")):
        provider.answer(refusal.body)
        error = await failing(endpoint(provider))
        assert (is_overflow(error), read_limit(error)) == (True, refusal.limit)
    provider.answer({"error": {"message": "Rate limited upstream", "code": 429}})
    error = await failing(endpoint(provider))
    assert (error.retryable, is_overflow(error)) == (True, False)
    assert "429: Rate limited upstream" in error.detail
    provider.answer({"error": "model runner has unexpectedly stopped"})
    error = await failing(endpoint(provider))
    assert error.retryable
    assert "unexpectedly stopped" in error.detail


@pytest.mark.parametrize(
    ("said", "limit"),
    [
        ("You passed 9000 input tokens. However, the model's context length is only "
         "8,192 tokens.", 8_192),
        ("Prompt contains 34567 tokens, too large for model with 32768 maximum context "
         "length", 32_768),
        ("The input token count (1200000) exceeds the maximum number of tokens allowed "
         "(1048576).", 1_048_576),
        ("The decoder prompt (length 9000) is longer than the maximum model length of "
         "8192.", 8_192),
        ("This model's maximum prompt length is 131072 but the request contains 537812 "
         "tokens.", 131_072),
        ("Input is too long for requested model.", None),
        ("This model's maximum context length is 0 tokens.", None),
    ],
)  # fmt: skip
def test_other_wordings(said: str, limit: int | None) -> None:
    error = ModelError(f"x answered 400: {said}")
    assert is_overflow(error)
    assert read_limit(error) == limit


def test_what_never_was_a_refusal() -> None:
    silent = ModelError("x gave no answer within 300 seconds.", retryable=True)
    assert not is_overflow(silent)
    assert read_limit(silent) is None


@pytest.mark.parametrize("status", [401, 402, 403, 404, 408, 429])
def test_the_status_goes_before_the_words(status: int) -> None:
    said = f"x answered {status}: Please reduce the length of the messages."
    assert not is_overflow(ModelError(said, status=status))
    assert is_overflow(ModelError(said, status=400))
