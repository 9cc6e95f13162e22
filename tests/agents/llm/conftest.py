"""Fixtures of the model tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.anthropic import FakeAnthropic


@pytest.fixture
def anthropic() -> Iterator[FakeAnthropic]:
    """A strict fake of the Anthropic API."""
    with FakeAnthropic() as running:
        yield running
