"""Fixtures of the model tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.agents.llm.fake_anthropic import FakeAnthropic
from tests.agents.llm.fake_provider import FakeProvider


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    """A strict fake of the OpenAI API."""
    with FakeProvider() as running:
        yield running


@pytest.fixture
def anthropic() -> Iterator[FakeAnthropic]:
    """A strict fake of the Anthropic API."""
    with FakeAnthropic() as running:
        yield running
