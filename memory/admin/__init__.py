"""The admin of what is remembered."""

from __future__ import annotations

from . import memories, policies, records

__all__ = ["memories", "policies", "records"]
