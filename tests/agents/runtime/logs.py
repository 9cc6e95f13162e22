"""What a turn has left in the log."""

from __future__ import annotations

from channels.db import database_sync_to_async

from agents.models import Mysis
from memory.models import Memory

in_db = database_sync_to_async


def log(mysis: Mysis) -> list[Memory]:
    return list(Memory.objects.filter(mysis=mysis).order_by("pk"))


def assert_paired(rows: list[Memory]) -> None:
    """Every call has its result right behind it, and nothing is pending."""
    waiting: list[str] = []
    for row in rows:
        assert not row.pending
        if row.role == "tool":
            assert row.tool_call_id in waiting
            waiting.remove(row.tool_call_id)
        else:
            assert waiting == []
        if row.role == "assistant":
            waiting = [item["id"] for item in row.tool_calls]
    assert waiting == []
