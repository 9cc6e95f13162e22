"""The admin of the fleet."""

from __future__ import annotations

from agents.admin import access, alerts, drafts, myses, prompts, records

__all__ = ["access", "alerts", "drafts", "myses", "prompts", "records"]
