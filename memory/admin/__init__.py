"""The admin of what is remembered."""

from __future__ import annotations

from memory.admin import audit, memories, records

__all__ = ["audit", "memories", "records"]
