"""The captain's log: twenty entries, the newest first."""

from __future__ import annotations

from agents.game.sandbox.errors import GameError
from agents.game.sandbox.models import LogEntry
from agents.game.sandbox.queries.call import Call, Json
from agents.game.sandbox.stamps import plain
from agents.game.sandbox.views import log_view

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
    return {
        "entries": log_view(call.player.log),
        "total_count": len(call.player.log),
        "max_entries": MOST_ENTRIES,
    }


def captains_log_get(call: Call) -> Json:
    index = call.arguments["index"]
    entries = log_view(call.player.log)
    if not 0 <= index < len(entries):
        raise GameError(
            "invalid_index",
            f"No log entry at index {index}. The log has {len(entries)} entries; "
            "index 0 is the newest.",
        )
    return entries[index]
