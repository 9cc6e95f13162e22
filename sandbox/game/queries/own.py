"""What belongs to the asker: status, ship, cargo, skills, notifications."""

from __future__ import annotations

from sandbox.game import skills
from sandbox.game.catalogue import ITEMS
from sandbox.game.models import Player
from sandbox.game.queries.call import Call, Json
from sandbox.game.views import class_view, module_view, player_view, ship_view


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
        "cargo": [
            {
                "item_id": item_id,
                "name": ITEMS[item_id].name,
                "quantity": count,
                "size": ITEMS[item_id].size,
            }
            for item_id, count in ship.cargo.items()
        ],
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
