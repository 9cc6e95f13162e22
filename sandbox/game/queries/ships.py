"""The asker's ships and drones, what else could be had, and what insurance costs."""

from __future__ import annotations

from sandbox.game.actions.droning import MOST_DRONES
from sandbox.game.actions.insuring import quote
from sandbox.game.battles import opponents
from sandbox.game.catalogue import SHIP_CLASSES, STARTER
from sandbox.game.models import Ship
from sandbox.game.queries.call import Call, Json
from sandbox.game.queries.here import docked_base
from sandbox.game.views import class_view


def list_ships(call: Call) -> Json:
    active = call.player.ship
    ships = [_entry(call, one) for one in (active, *call.player.hangar)]
    return {
        "ships": ships,
        "count": len(ships),
        "active_ship_id": active.id,
        "active_ship_class": active.class_id,
    }


def _entry(call: Call, ship: Ship) -> Json:
    build, active = ship.build, not ship.base_id
    bases = call.state.world.bases
    place = {"location": "active"}
    if not active:
        name = bases[ship.base_id].name
        place = {"location": f"stored at {name}", "location_base_id": ship.base_id}
    return {
        "ship_id": ship.id,
        "class_id": build.id,
        "class_name": build.name,
        "is_active": active,
        **place,
        "hull": f"{ship.hull}/{build.hull}",
        "fuel": f"{ship.fuel}/{build.fuel}",
        "cargo_used": ship.cargo_used,
        "modules": len(ship.modules),
    }


def get_ships(call: Call) -> Json:
    """The classes that a shipyard builds."""
    builds = [class_view(one) for one in SHIP_CLASSES.values() if one is not STARTER]
    return {"ships": builds, "count": len(builds)}


def get_drones(call: Call) -> Json:
    drones = call.player.drones
    return {
        "drones": [
            {
                "drone_id": one.id,
                "poi_id": one.poi_id,
                "resource_id": one.resource_id,
                "mined": one.mined,
            }
            for one in drones
        ],
        "total_count": len(drones),
        "bandwidth_used": 5 * len(drones),
        "bandwidth_total": 5 * MOST_DRONES,
        "drone_capacity": MOST_DRONES,
    }


def get_insurance_quote(call: Call) -> Json:
    docked_base(call)
    offer = quote(call.player)
    name = call.player.ship.build.name
    return {
        "message": f"Insurance quote for your {name}",
        "quote": {**offer, "refused": bool(call.player.coverage), "risk_score": 1},
    }


def get_battle_status(call: Call) -> Json:
    others = opponents(call.state, call.player)
    listed = [{"player_id": one.id, "username": one.username} for one in others]
    return {"in_battle": bool(others), "opponents": listed}


def get_queue(call: Call) -> Json:
    """The action that is under way, if there is one."""
    pending = call.player.pending
    queue = [{"command": pending.tool, "tick": pending.due_tick}] if pending else []
    return {"queue": queue, "count": len(queue)}
