"""Our own MCP server: the fleet and its memory, for programs and agents outside."""

from __future__ import annotations
