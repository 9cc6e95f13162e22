"""The admin of the fleet."""

from __future__ import annotations

from agents.admin import (
    access,
    alerts,
    drafts,
    myses,
    prompts,
    records,
    settings,
)

__all__ = ["access", "alerts", "drafts", "myses", "prompts", "records", "settings"]
