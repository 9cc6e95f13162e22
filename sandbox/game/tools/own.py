"""What belongs to the asker: status, ship, cargo, skills, notifications and log."""

from __future__ import annotations

from sandbox.game import views
from sandbox.game.config import NS, GameError, Json, make_view
from sandbox.game.tool import Parameter, flag, number, text
from sandbox.game.tools.rules import Call, ask
from sandbox.game.world import catalogue
from sandbox.game.world.models import LogEntry

MOST_ENTRIES = 20
LONGEST_ENTRY = 100_000
_SKILL = make_view("id name description category")
_ROOM = make_view("used=cargo_used capacity=build.cargo available=cargo_free")
_LEARNED = make_view("skill_id=id name category")
_UNLISTED = {"required": False, "listed": False}


def _get_status(call: Call) -> Json:
    return {
        "player": views.view_player(call.player, call.state.faction_of(call.player)),
        "ship": views.view_ship(call.player.ship),
        "modules": [views.view_module(module) for module in call.player.ship.modules],
    }


def _get_ship(call: Call) -> Json:
    ship = call.player.ship
    return {
        "ship": views.view_ship(ship),
        "class": views.view_class(ship.build),
        "modules": [views.view_module(module) for module in ship.modules],
        "cargo_used": ship.cargo_used,
        "cargo_max": ship.build.cargo,
    }


def _get_cargo(call: Call) -> Json:
    return {
        "cargo": views.view_goods(call.player.ship.cargo),
        **_ROOM(call.player.ship),
    }


def _define(kind: catalogue.SkillKind) -> Json:
    required = {"required_skills": dict([kind.requires])} if kind.requires else {}
    return {
        **_SKILL(kind),
        "max_level": catalogue.MAX_LEVEL,
        **required,
        "bonus_per_level": {kind.bonus: 2},
        "training_source": kind.source,
        "xp_per_level": list(catalogue.XP_PER_LEVEL),
    }


_DEFINITIONS = {name: _define(kind) for name, kind in sorted(catalogue.SKILLS.items())}


def _get_skills(call: Call) -> Json:
    own = [
        {
            **_LEARNED(catalogue.SKILLS[name]),
            "level": skill.level,
            "max_level": catalogue.MAX_LEVEL,
            "current_xp": skill.xp,
            "next_level_xp": catalogue.xp_needed(skill.level),
        }
        for name, skill in call.player.skills.items()
    ]
    return {
        "skills": _DEFINITIONS,
        "player_skills": own,
        "player_skill_count": len(own),
    }


def _get_notifications(call: Call) -> Json:
    """Read the session's queue; what was read is gone unless `clear` is false."""
    read, left = call.session.read(
        limit=call.given.get("limit", 50),
        types=call.given.get("types", ()),
        clear=call.given.get("clear", True),
    )
    return {
        "count": len(read),
        "current_tick": call.state.tick,
        "notifications": read,
        "remaining": left,
        "timestamp": call.state.sources.now_ns() // NS,
    }


def _add_to_log(call: Call) -> Json:
    words = call.given.get("entry", "")
    if not words.strip():
        raise GameError(
            "empty_entry",
            "Log entry cannot be empty. "
            "Use the 'entry' parameter to provide your log text.",
        )
    entry = LogEntry(words, call.state.plain_now)
    call.player.log.insert(0, entry)
    del call.player.log[MOST_ENTRIES:]
    message = "Log entry added successfully"
    return {"index": 0, "created_at": entry.created_at, "message": message}


def _list_log(call: Call) -> Json:
    """The whole log, or one entry of it as it is since v0.63.1."""
    log = call.player.log
    totals = {"total_count": len(log), "max_entries": MOST_ENTRIES}
    if not call.state.config.is_modern:
        return {"entries": views.view_log(log), **totals}
    index = call.given.get("index", 0)
    return {
        "entry": _get_entry(log, index) if log or index else None,
        "index": index,
        **totals,
        "has_next": index + 1 < len(log),
        "has_prev": index > 0,
    }


def _get_entry(log: list[LogEntry], index: int) -> Json:
    entries = views.view_log(log)
    if not 0 <= index < len(entries):
        raise GameError(
            "invalid_index",
            f"No log entry at index {index}. The log has {len(entries)} entries; "
            "index 0 is the newest.",
        )
    return entries[index]


STATE = (
    ask("get_status", "query", "Get your player, your ship and its modules.",
        _get_status),
    ask("get_ship", "query", "Get your ship in detail, with its class and modules.",
        _get_ship),
    ask("get_cargo", "query", "Get what is in your hold.", _get_cargo),
)  # fmt: skip
NEWS = (
    ask("get_notifications", "query",
        "Poll for pending notifications (chat, combat, trades, etc.).",
        _get_notifications,
        number("limit", "How many at most", 50, **_UNLISTED, least=1, most=100),
        flag("clear", "Remove what was read", **_UNLISTED),
        Parameter("types", "array", "Only these types", **_UNLISTED),
        notes="Reading clears. The queue holds 100; the oldest are dropped."),
    ask("get_skills", "query", "Get all skills and what you have learned.",
        _get_skills),
)  # fmt: skip
LOG = (
    ask("captains_log_add", "log", "Add an entry to your captain's log.", _add_to_log,
        text("entry", "The text of the entry", "Day 1: found a rich belt.",
             own_error=True, longest=LONGEST_ENTRY),
        notes="Keeps 20 entries; the oldest is dropped.", writes=True),
    ask("captains_log_list", "log", "List your captain's log, newest first.",
        _list_log),
    ask("captains_log_get", "log", "Get a specific entry from your captain's log.",
        lambda call: _get_entry(call.player.log, call.given["index"]), "index"),
)  # fmt: skip
