"""The admin of the fleet."""

from __future__ import annotations

from agents.admin import access, drafts, myses, prompts, records

__all__ = ["access", "drafts", "myses", "prompts", "records"]
