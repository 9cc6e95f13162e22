"""What is around the asker: system, place, base, company, market."""

from __future__ import annotations

from agents.game.sandbox.catalogue import ITEMS, find_item
from agents.game.sandbox.errors import not_docked_here, unknown_item
from agents.game.sandbox.markets import Shelf
from agents.game.sandbox.places import Base
from agents.game.sandbox.queries.call import Call, Json
from agents.game.sandbox.views import (
    base_view,
    deposit_view,
    npc_nearby,
    offers_view,
    pirate_nearby,
    player_nearby,
    poi_view,
    security,
    system_view,
)

MOST_NEARBY = 100


def get_system(call: Call) -> Json:
    if call.player.in_transit:
        return _under_way(call, "get_system")
    system = call.state.world.systems[call.player.system_id]
    return {
        "system": system_view(system),
        "pois": [poi_view(poi, resources=False) for poi in system.pois],
        "security_status": security(system.police_level),
    }


def get_poi(call: Call) -> Json:
    if call.player.in_transit:
        return _under_way(call, "get_poi")
    poi = call.state.world.pois[call.player.poi_id]
    base = None
    if poi.base:
        base = base_view(poi.base)
        base["market"] = offers_view(call.state.markets.at(poi.base))
    view: Json = {"poi": poi_view(poi), "base": base}
    if poi.deposits:
        view["resources"] = [deposit_view(deposit) for deposit in poi.deposits]
    return view


def _under_way(call: Call, action: str) -> Json:
    player, world = call.player, call.state.world
    pending = player.pending
    if pending is None:  # in_transit has said otherwise
        raise AssertionError("a ship under way has a pending flight")
    arguments = pending.arguments
    left = max(0, pending.due_tick - call.state.tick)
    view: Json = {
        "action": action,
        "in_transit": True,
        "transit_type": pending.tool,
        "ticks_remaining": left,
        "from_system": player.system_id,
        "to_system": arguments.get("system_id", player.system_id),
        "message": f"In transit. Arrival at tick {pending.due_tick}.",
    }
    if action == "get_poi":
        goal = world.systems[view["to_system"]].pois[0].id
        view |= {"from_poi": player.poi_id, "to_poi": arguments.get("poi_id", goal)}
    return view


def _docked_base(call: Call) -> Base:
    if not call.player.docked_at:
        raise not_docked_here()
    return call.state.world.bases[call.player.docked_at]


def get_base(call: Call) -> Json:
    base = _docked_base(call)
    working = len(base.facilities) * 4 // 5
    return {
        "base": base_view(base),
        "condition": {
            "condition": "operational",
            "condition_text": "Most of the station's infrastructure is working.",
            "satisfaction_pct": 100 * working // len(base.facilities),
            "satisfied_count": working,
            "total_service_infra": len(base.facilities),
        },
    }


def get_nearby(call: Call) -> Json:
    """List who is here, at most a hundred; a ship under way is alone."""
    poi_id = "" if call.player.in_transit else call.player.poi_id
    nearby = [
        player_nearby(other)
        for other in call.state.players_at(poi_id)
        if other.id != call.player.id
    ]
    nearby += [npc_nearby(npc) for npc in call.state.npcs_at(poi_id)]
    nearby = nearby[:MOST_NEARBY]
    pirates = [pirate_nearby(pirate) for pirate in call.state.pirates_at(poi_id)]
    return {
        "nearby": nearby,
        "count": len(nearby),
        "pirates": pirates,
        "pirate_count": len(pirates),
        "poi_id": poi_id,
    }


def view_market(call: Call) -> Json:
    base = _docked_base(call)
    shelves = call.state.markets.at(base).shelves
    if given := call.arguments.get("item_id"):
        item = find_item(given)
        if item is None:
            raise unknown_item(given)
        shelves = {item.id: shelves[item.id]}
    return {
        "action": "view_market",
        "base": base.name,
        "items": [_shelf_view(item_id, shelf) for item_id, shelf in shelves.items()],
    }


def _shelf_view(item_id: str, shelf: Shelf) -> Json:
    buying, selling = bool(shelf.wanted), bool(shelf.stock)
    view: Json = {
        "item_id": item_id,
        "item_name": ITEMS[item_id].name,
        "buy_orders": [_order(shelf.paid, shelf.wanted)] if buying else [],
        "sell_orders": [_order(shelf.asked, shelf.stock)] if selling else [],
        "best_buy": shelf.paid if buying else 0,
        "best_sell": shelf.asked if selling else 0,
        "buy_price": shelf.paid if buying else 0,
        "sell_price": shelf.asked if selling else 0,
        "buy_quantity": shelf.wanted,
        "sell_quantity": shelf.stock,
    }
    if buying and selling:
        view["spread"] = shelf.asked - shelf.paid
    return view


def _order(price: int, quantity: int) -> Json:
    return {"price_each": price, "quantity": quantity, "source": "station"}
