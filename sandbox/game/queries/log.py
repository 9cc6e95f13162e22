"""The captain's log: twenty entries, the newest first."""

from __future__ import annotations

from sandbox.game.errors import GameError
from sandbox.game.models import LogEntry
from sandbox.game.queries.call import Call, Json
from sandbox.game.stamps import plain
from sandbox.game.views import log_view

MOST_ENTRIES = 20
LONGEST_ENTRY = 100_000


def captains_log_add(call: Call) -> Json:
    text = call.arguments.get("entry", "")
    if not text.strip():
        raise GameError(
            "empty_entry",
            "Log entry cannot be empty. "
            "Use the 'entry' parameter to provide your log text.",
        )
    entry = LogEntry(text, plain(call.state.sources.now_ns()))
    call.player.log.insert(0, entry)
    del call.player.log[MOST_ENTRIES:]
    return {
        "index": 0,
        "created_at": entry.created_at,
        "message": "Log entry added successfully",
    }


def captains_log_list(call: Call) -> Json:
    """The whole log, or one entry of it as it is since v0.63.1."""
    if call.state.config.era == "C":
        return _one_entry(call.player.log, call.arguments.get("index", 0))
    return {
        "entries": log_view(call.player.log),
        "total_count": len(call.player.log),
        "max_entries": MOST_ENTRIES,
    }


def _one_entry(log: list[LogEntry], index: int) -> Json:
    entry = _entry(log, index) if log or index else None
    return {
        "entry": entry,
        "index": index,
        "total_count": len(log),
        "max_entries": MOST_ENTRIES,
        "has_next": index + 1 < len(log),
        "has_prev": index > 0,
    }


def captains_log_get(call: Call) -> Json:
    return _entry(call.player.log, call.arguments["index"])


def _entry(log: list[LogEntry], index: int) -> Json:
    entries = log_view(log)
    if not 0 <= index < len(entries):
        raise GameError(
            "invalid_index",
            f"No log entry at index {index}. The log has {len(entries)} entries; "
            "index 0 is the newest.",
        )
    return entries[index]
