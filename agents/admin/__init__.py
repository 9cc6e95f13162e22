"""The admin of the fleet."""

from __future__ import annotations

from . import access, myses, prompts, records

__all__ = ["access", "myses", "prompts", "records"]
