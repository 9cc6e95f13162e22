"""A server that alerts are sent to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.agents.alerts.receiver import Receiver


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running
