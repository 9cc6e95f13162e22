"""What belongs to the asker: status, ship, cargo, skills, notifications and log."""

from __future__ import annotations

from sandbox.game.actions.action import Call, Json
from sandbox.game.config import GameError, plain
from sandbox.game.views import (
    class_view,
    goods_view,
    log_view,
    module_view,
    player_view,
    ship_view,
)
from sandbox.game.world import skills
from sandbox.game.world.models import LogEntry, Player


def get_status(call: Call) -> Json:
    return {
        "player": player_view(call.player, call.state.faction_of(call.player)),
        "ship": ship_view(call.player.ship),
        "modules": [module_view(module) for module in call.player.ship.modules],
    }


def get_ship(call: Call) -> Json:
    ship = call.player.ship
    return {
        "ship": ship_view(ship),
        "class": class_view(ship.build),
        "modules": [module_view(module) for module in ship.modules],
        "cargo_used": ship.cargo_used,
        "cargo_max": ship.build.cargo,
    }


def get_cargo(call: Call) -> Json:
    ship = call.player.ship
    return {
        "cargo": goods_view(ship.cargo),
        "used": ship.cargo_used,
        "capacity": ship.build.cargo,
        "available": ship.cargo_free,
    }


_DEFINITIONS = {
    name: skills.definition(kind) for name, kind in sorted(skills.KINDS.items())
}


def get_skills(call: Call) -> Json:
    own = _learned(call.player)
    return {
        "skills": _DEFINITIONS,
        "player_skills": own,
        "player_skill_count": len(own),
    }


def _learned(player: Player) -> list[Json]:
    return [
        {
            "skill_id": name,
            "name": skills.KINDS[name].name,
            "category": skills.KINDS[name].category,
            "level": skill.level,
            "max_level": skills.MAX_LEVEL,
            "current_xp": skill.xp,
            "next_level_xp": skills.needed(skill.level),
        }
        for name, skill in player.skills.items()
    ]


def get_notifications(call: Call) -> Json:
    """Read the session's queue; what was read is gone unless `clear` is false."""
    given, left = call.session.mailbox.read(
        limit=call.arguments.get("limit", 50),
        types=call.arguments.get("types", ()),
        clear=call.arguments.get("clear", True),
    )
    return {
        "count": len(given),
        "current_tick": call.state.tick,
        "notifications": [item.view() for item in given],
        "remaining": left,
        "timestamp": call.state.sources.now_ns() // 1_000_000_000,
    }


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
