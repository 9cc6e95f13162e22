"""What lies in storage, what floats in space, and what can be made of it."""

from __future__ import annotations

from sandbox.game.catalogue import ITEMS
from sandbox.game.queries.call import Call, Json
from sandbox.game.queries.here import docked_base
from sandbox.game.recipes import RECIPES, recipe_view
from sandbox.game.wrecks import wreck_view, wrecks_at


def view_storage(call: Call) -> Json:
    base = docked_base(call)
    items = call.player.stores.get(base.id, {})
    return {
        "base_id": base.id,
        "credits": call.player.saved_credits.get(base.id, 0),
        "items": [
            {
                "item_id": item_id,
                "name": ITEMS[item_id].name,
                "quantity": count,
                "size": ITEMS[item_id].size,
            }
            for item_id, count in items.items()
        ],
        "ships": [
            {
                "ship_id": ship.id,
                "class_id": ship.class_id,
                "class_name": ship.build.name,
                "modules": len(ship.modules),
                "cargo_used": ship.cargo_used,
            }
            for ship in call.player.hangar
            if ship.base_id == base.id
        ],
    }


def get_recipes(call: Call) -> Json:
    """All recipes by id; the same for everybody."""
    return {"recipes": {name: recipe_view(one) for name, one in RECIPES.items()}}


def get_wrecks(call: Call) -> Json:
    here = [] if call.player.in_transit else wrecks_at(call.state, call.player.poi_id)
    seconds = call.state.config.tick_seconds
    return {
        "count": len(here),
        "wrecks": [wreck_view(wreck, seconds) for wreck in here],
    }
