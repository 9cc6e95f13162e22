"""The admin of the fleet."""

from __future__ import annotations

from . import access, budgets, myses, prompts, records, summaries

__all__ = ["access", "budgets", "myses", "prompts", "records", "summaries"]
