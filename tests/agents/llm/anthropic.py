"""Where the strict fake of the Anthropic API is reached."""

from __future__ import annotations

from typing import Any

from agents.llm.model_types import Endpoint
from tests.fakes.anthropic import KEY, WINDOW, FakeAnthropic


def make_endpoint(fake: FakeAnthropic, **changes: Any) -> Endpoint:
    """The endpoint of a running fake."""
    values: dict[str, Any] = {
        "name": "anthropic:claude-haiku-4-5",
        "kind": "anthropic",
        "model": "claude-haiku-4-5",
        "window": WINDOW,
        "base_url": fake.url,
        "key": KEY,
    }
    return Endpoint(**{**values, **changes})
