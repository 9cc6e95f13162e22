"""The admin of the fleet."""

from __future__ import annotations

from . import access, budgets, myses, policies, prompts, records, summaries

__all__ = [
    "access",
    "budgets",
    "myses",
    "policies",
    "prompts",
    "records",
    "summaries",
]
