"""The room for an answer beside the view, in the window of the model."""

from __future__ import annotations

import pytest

from agents.context_inputs import budget_of, narrow_budget
from agents.llm.model_types import Endpoint, longest_answer
from memory.context.types import Budget
from memory.models import ContextPolicy


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
    assert budget_of(policy, endpoint, answer) == budget


def test_the_longest_answer_is_what_the_request_says():
    chat = Endpoint("x", "openai", "m", 1)
    claude = Endpoint("x", "anthropic", "m", 1)
    assert longest_answer({"max_tokens": 500}, claude) == 500
    assert longest_answer({}, claude) == 8_000
    assert longest_answer({}, chat) == longest_answer({}, None) == 0


def test_a_narrowed_budget_keeps_its_reserve():
    assert narrow_budget(Budget(32_000, 4_000), 0) == Budget(32_000, 4_000)
    assert narrow_budget(Budget(32_000, 4_000), 9_000) == Budget(13_000, 4_000)
    assert narrow_budget(Budget(32_000, 4_000), 90_000) == Budget(32_000, 4_000)
