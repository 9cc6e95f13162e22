"""What every test of the lab needs."""

from __future__ import annotations

import pytest

from agents.lab import analytics, retaken


@pytest.fixture(autouse=True)
def _time_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing be left out because the machine is busy."""
    for module in (analytics, retaken):
        monkeypatch.setattr(module, "SECONDS", 600.0)
