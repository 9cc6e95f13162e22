"""An example of every body, by the name of its schema; a test checks each."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

AT = "2026-02-05T00:00:00Z"

_MESSAGES = [
    {"id": 1, "role": "user", "content": "Mine some iron."},
    {"id": 2, "role": "assistant", "content": "I am at the belt."},
    {"id": 3, "role": "user", "content": "Good. Go on."},
]
_LEDGER = [
    {
        "id": 1,
        "disposition": "out_of_window",
        "by": "window",
        "reason": "Older than what is sent.",
        "tokens_in": 4,
        "tokens_out": 0,
        "handle": "ctx://self/1",
    },
    {
        "id": 3,
        "disposition": "kept",
        "by": None,
        "reason": "Sent as stored.",
        "tokens_in": 3,
        "tokens_out": 3,
        "handle": None,
    },
]
_STATS = {"strategy": "window", "messages_in": 2, "messages_out": 2, "tokens_out": 9}
_VIEW: list[Json] = [
    {"role": "system", "content": "You fly a ship."},
    {"role": "user", "content": "Good. Go on."},
]
_ASSEMBLED: Json = {
    "status": "reduced",
    "reason": "Of 2 stored messages: 1 outside the window.",
    "messages": _VIEW,
    "sources": [None, 3],
    "synthetic": [{"position": 0, "kind": "prompt"}],
    "ledger": _LEDGER,
    "stats": _STATS,
    "warnings": [],
    "summary_wanted": None,
}
_HASH = "3f2a" * 16
_HIT: Json = {
    "memory_id": 1234,
    "mysis": 1,
    "role": "assistant",
    "origin": "agent",
    "content": "The belt holds iron ore.",
    "reasoning": "",
    "snippet": "The belt holds <mark>iron</mark> ore.",
    "timestamp": AT,
}
_SIDE: Json = {
    "disposition": "kept",
    "by": None,
    "reason": "Sent as stored.",
    "tokens_in": 3,
    "tokens_out": 3,
    "handle": None,
    "position": 1,
    "message": _VIEW[1],
}
_DIFF_HEAD: Json = {
    "strategy": "window",
    "status": "reduced",
    "reason": _ASSEMBLED["reason"],
    "hash": _HASH,
    "stats": _STATS,
}

ANSWERS: dict[str, Json] = {
    "MysisOut": {
        "id": 1,
        "name": "Ada",
        "state": "running",
        "model": "openai:gpt-5-nano",
        "policy": "tight",
        "prompt": "captain",
        "account": "VoidWanderer",
        "activity": "travelling",
        "tick": 1042,
        "last_error": None,
        "nudges": 0,
        "created_at": AT,
    },
    "MemoryOut": {
        "id": 1234,
        "turn": 17,
        "role": "assistant",
        "origin": "agent",
        "sender": None,
        "content": "Scanning.",
        "reasoning": "I do not know yet what is here.",
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "get_nearby", "arguments": "{}"},
            }
        ],
        "tool_call_id": None,
        "tool_name": None,
        "is_error": False,
        "tick": 1042,
        "created_at": AT,
    },
    "TurnOut": {
        "id": 17,
        "number": 4,
        "trigger": "nudge",
        "outcome": "done",
        "iterations": 3,
        "tokens": {"input": 21000, "output": 480, "cached": 18500},
        "cost": 0.0016,
        "latency_ms": 5200,
        "error": None,
        "started_at": AT,
        "finished_at": "2026-02-05T00:00:09Z",
    },
    "FleetOut": {
        "counts": {"idle": 1, "running": 5, "stopped": 0, "errored": 0},
        "total": 6,
        "tick": 1042,
        "tokens": {"input": 840000, "output": 19000, "cached": 700000},
        "cost": 0.21,
        "turns": 120,
        "staleness": {
            "fresh": 20,
            "ageing": 4,
            "stale": 1,
            "invalidated": 2,
            "merged": 3,
            "unknown": 0,
        },
        "redundant_gets": {"calls": 100, "redundant": 4, "rate": 0.04},
        "redundant_get_rate": 0.04,
    },
    "BroadcastOut": {
        "id": 3,
        "text": "All to Sol.",
        "sender": "operator:grace",
        "mysis": None,
        "recipients": 5,
        "created_at": AT,
    },
    "ProviderOut": {
        "name": "local",
        "kind": "ollama",
        "base_url": "http://127.0.0.1:11434",
        "default_model": "qwen3",
        "window": 32768,
        "has_key": False,
    },
    "PromptOut": {
        "id": 1,
        "name": "captain",
        "version": 3,
        "text": "You fly a ship in the game SpaceMolt.",
        "created_at": AT,
    },
    "VersionOut": {
        "id": 9,
        "number": 3,
        "text": "You fly a ship in the game SpaceMolt.",
        "author": "operator:grace",
        "note": "shorter",
        "created_at": AT,
    },
    "EventOut": {
        "id": 812,
        "kind": "turn.finished",
        "at": "2026-02-05T00:00:09.120Z",
        "mysis": 1,
        "data": {"turn": 17, "outcome": "done"},
    },
    "AccountOut": {
        "id": 2,
        "username": "VoidWanderer",
        "empire": "solarian",
        "player_id": "p_81",
        "assigned_to": "Ada",
        "created_at": AT,
    },
    "PolicyOut": {
        "name": "tight",
        "strategy": "snapshot-window",
        "options": {"window": 12},
        "budget": {"tokens": 16000, "reserve": 2000},
    },
    "HitOut": _HIT,
    "BroadcastHitOut": _HIT
    | {
        "mysis": None,
        "role": "user",
        "origin": "broadcast",
        "content": "Iron is dear at Sol.",
        "snippet": "<mark>Iron</mark> is dear at Sol.",
    },
    "StateRowOut": {
        "tool": "get_ship",
        "args": {},
        "confidence": "ageing",
        "age_ticks": 7,
        "age_seconds": 70.4,
        "reason": None,
        "tick": 1035,
        "captured_at": AT,
        "fields": {"fuel": "invalidated"},
    },
    "SummaryText": {
        "id": 5,
        "mysis": 1,
        "first_id": 1,
        "through_id": 900,
        "generation": 2,
        "text": "Ada mined iron at Sol and sold it at a profit.",
        "tokens_before": 42000,
        "tokens_after": 600,
        "status": "active",
        "attempts": 1,
        "error": "",
        "cost": 0.003,
        "created_at": AT,
    },
    "SummaryOut": {
        "state": "## Current Game State\n\nShip: hull 85/100, fuel 40/100",
        "summary": None,
    },
    "Assembled": _ASSEMBLED,
    "ContextPreview": _ASSEMBLED | {"hash": _HASH, "sent": False},
    "SentContext": {
        "messages": _VIEW,
        "system": None,
        "sources": [None, 3],
        "ledger": _LEDGER,
        "stats": _STATS,
        "hash": _HASH,
        "sent": True,
        "intact": True,
    },
    "ContextDiff": {
        "a": _DIFF_HEAD,
        "b": _DIFF_HEAD | {"strategy": "tiered"},
        "differing": 0,
        "messages": [
            {
                "id": 3,
                "role": "user",
                "kind": None,
                "same": True,
                "a": _SIDE,
                "b": _SIDE,
            }
        ],
    },
}
ANSWERS["MysisDetail"] = ANSWERS["MysisOut"] | {
    "group": "miners",
    "pins": ["Never attack."],
    "max_iterations": 10,
    "messaging": False,
}
ANSWERS["TurnDetail"] = ANSWERS["TurnOut"]

MARKDOWN = (
    f"{ANSWERS['SummaryOut']['state']}\n\n## Summary of Earlier History\n\n"
    f"{ANSWERS['SummaryText']['text']}\n"
)

BODIES: dict[str, Json] = {
    "MysisIn": {
        "name": "Nova",
        "model": "openai:gpt-5-nano",
        "prompt": "captain",
        "pins": ["Never attack."],
        "max_iterations": 10,
    },
    "MysisChange": {"policy": "tight", "messaging": True},
    "MessageIn": {"text": "Sell what you have."},
    "CommandIn": {"tool": "get_status", "arguments": {}},
    "BroadcastIn": {"text": "All to Sol."},
    "ProviderIn": {
        "name": "local",
        "kind": "ollama",
        "base_url": "http://127.0.0.1:11434",
        "default_model": "qwen3",
    },
    "ProviderChange": {"window": 32768, "api_key": "sk-..."},
    "PromptIn": {"name": "trader", "text": "You trade.", "note": "first try"},
    "VersionIn": {"text": "You trade, and never at a loss.", "note": "safer"},
    "RollbackIn": {"number": 1},
    "PolicyIn": {
        "name": "tight",
        "strategy": "snapshot-window",
        "options": {"window": 12},
        "budget": {"tokens": 16000, "reserve": 2000},
    },
    "PolicyChange": {"budget": {"tokens": 32000}},
    "AssembleIn": {
        "strategy": "window",
        "options": {"window": 2},
        "budget": {"tokens": 4000, "reserve": 500},
        "system": "You fly a ship.",
        "messages": _MESSAGES,
    },
}
