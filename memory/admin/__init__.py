"""The admin of what is remembered."""

from __future__ import annotations

from memory.admin import memories, records

__all__ = ["memories", "records"]
