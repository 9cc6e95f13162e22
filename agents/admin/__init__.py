"""The admin of the fleet."""

from __future__ import annotations

from . import access, myses, prompts, records, summaries

__all__ = ["access", "myses", "prompts", "records", "summaries"]
