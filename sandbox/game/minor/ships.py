"""Ships that are kept at bases, and what a captain does to the one he flies."""

from __future__ import annotations

from sandbox.game.actions.action import Call
from sandbox.game.actions.damage import new_ship, opponents
from sandbox.game.config import GameError
from sandbox.game.minor.row import (
    AWAY,
    DOCK,
    HOLD,
    Deed,
    Goods,
    Json,
    Move,
    Takes,
    act,
    ask,
    named,
    one,
)
from sandbox.game.tool import ITEM, MOST_QUANTITY, Parameter
from sandbox.game.views import class_view
from sandbox.game.world.catalogue import (
    AMMUNITION,
    MODULES,
    SHIP_CLASSES,
    STARTER,
    ShipClass,
)
from sandbox.game.world.models import Module, Ship

MOST_SHIPS = 5
YARD_TICKS = 5
KIT_HULL = 25
CELL_FUEL = 10
LONGEST_NAME = 40


def _get_ships(call: Call) -> Json:
    """The classes that a shipyard builds."""
    builds = [class_view(each) for each in SHIP_CLASSES.values() if each != STARTER]
    return {"ships": builds, "count": len(builds)}


def _list_ships(call: Call) -> Json:
    active = call.player.ship
    ships = [_entry(call, each) for each in (active, *call.player.hangar)]
    return {
        "ships": ships,
        "count": len(ships),
        "active_ship_id": active.id,
        "active_ship_class": active.class_id,
    }


def _entry(call: Call, ship: Ship) -> Json:
    build, place = ship.build, {"location": "active"}
    if ship.base_id:
        name = call.state.world.bases[ship.base_id].name
        place = {"location": f"stored at {name}", "location_base_id": ship.base_id}
    return {
        "ship_id": ship.id,
        "class_id": build.id,
        "class_name": build.name,
        "is_active": not ship.base_id,
        **place,
        "hull": f"{ship.hull}/{build.hull}",
        "fuel": f"{ship.fuel}/{build.fuel}",
        "cargo_used": ship.cargo_used,
        "modules": len(ship.modules),
    }


def _get_battle_status(call: Call) -> Json:
    others = opponents(call.state, call.player)
    listed = [{"player_id": each.id, "username": each.username} for each in others]
    return {"in_battle": bool(others), "opponents": listed}


def _get_queue(call: Call) -> Json:
    """The action that is under way, if there is one."""
    pending = call.player.pending
    queue = [{"command": pending.tool, "tick": pending.due_tick}] if pending else []
    return {"queue": queue, "count": len(queue)}


def _on_sale(deed: Deed) -> ShipClass:
    build = SHIP_CLASSES.get(deed.given["ship_class"])
    if build is None or build is STARTER:
        raise GameError("invalid_ship_class", "Unknown ship class. Use 'get_ships'.")
    if len(deed.player.hangar) >= MOST_SHIPS:
        raise GameError("hangar_full", f"At most {MOST_SHIPS} ships can be kept.")
    return build


def _keep_new(deed: Deed) -> Json:
    ship = new_ship(deed.state, deed.player.id, deed.thing)
    ship.base_id = deed.base.id
    deed.player.hangar.append(ship)
    return {"ship_id": ship.id, "price": deed.thing.price}


def _commission(deed: Deed) -> None:
    deed.later(YARD_TICKS, "ship_commission_complete", deed.thing.id)


def _kept(deed: Deed) -> Ship:
    for ship in deed.player.hangar:
        if (ship.id, ship.base_id) == (deed.given["ship_id"], deed.base.id):
            return ship
    raise GameError("invalid_ship", "No such ship is kept here. Use 'list_ships'.")


def _switch(deed: Deed) -> Json:
    player, ship = deed.player, deed.thing
    player.hangar.remove(ship)
    player.hangar.append(player.ship)
    player.ship.base_id, ship.base_id = ship.base_id, ""
    player.ship = ship
    return {"ship_class": ship.class_id}


def _used_worth(deed: Deed) -> int:
    ship: Ship = deed.thing
    return ship.build.price // 2


def _use(deed: Deed) -> None:
    ship, ((item_id, quantity),) = deed.player.ship, named(deed).items()
    if item_id == "repair_kit":
        ship.hull = min(ship.build.hull, ship.hull + KIT_HULL * quantity)
    else:
        ship.fuel = min(ship.build.fuel, ship.fuel + CELL_FUEL * quantity)


def _weapon(deed: Deed) -> Module:
    wanted = deed.given["weapon_instance_id"]
    found = [module for module in deed.player.ship.modules if module.id == wanted]
    if not found:
        raise GameError("invalid_weapon", "No such weapon is fitted. Use 'get_ship'.")
    if found[0].type_id not in AMMUNITION:
        raise GameError("not_weapon", "This module takes no ammunition.")
    return found[0]


def _rounds(deed: Deed) -> Goods:
    """As many as the magazine lacks and the hold has, one at least."""
    name = AMMUNITION[deed.thing.type_id]
    missing = deed.thing.value("magazine_size") - deed.thing.ammo
    return {name: max(1, min(missing, deed.player.ship.cargo.get(name, 0)))}


def _reload(deed: Deed) -> Json:
    deed.thing.ammo += sum(_rounds(deed).values())
    name = MODULES[deed.thing.type_id]["name"]
    return {"weapon_name": name, "current_ammo": deed.thing.ammo}


def _cloak(deed: Deed) -> Json:
    deed.player.looks.cloaked = deed.given.get("enable", True)
    _look_again(deed)
    return {"cloaked": deed.player.looks.cloaked}


def _rename(deed: Deed) -> Json:
    deed.player.ship.name = deed.given["name"].strip()
    _look_again(deed)
    return {"name": deed.player.ship.name}


def _look_again(deed: Deed) -> None:
    """Tell those who are near that a ship is not as they have seen it (era C)."""
    state, player = deed.state, deed.player
    if state.config.era == "C" and not player.in_transit:
        data = {"tick": state.tick, "poi_id": player.poi_id}
        deed.tell_others("observation_update", data)


_CLASS = one("ship_class", "The class's ID", "courier_light")
_SHIP = one("ship_id", "The ship's ID, from list_ships")
_SOME = Parameter(
    "quantity", "integer", "How many", required=False, least=1, most=MOST_QUANTITY
)

SHIPS = (
    ask("get_ships", "ship", "List the ship classes that shipyards build.", _get_ships),
    ask("list_ships", "ship", "List the ships you own.", _list_ships),
    act("buy_ship", "ship", "Buy a ship; it is kept at this base.", _CLASS, where=DOCK,
        service="shipyard", names=_on_sale, costs=lambda deed: deed.thing.price,
        changes=_keep_new),
    act("commission_ship", "ship",
        "Have a ship built; it is kept at this base when it is done.", _CLASS,
        where=DOCK, service="shipyard", names=_on_sale,
        costs=lambda deed: deed.thing.price, changes=_commission),
    act("sell_ship", "ship", "Sell a ship that is kept at this base.", _SHIP,
        destructive=True, where=DOCK, names=_kept, earns=_used_worth,
        changes=lambda deed: deed.player.hangar.remove(deed.thing)),
    act("switch_ship", "ship", "Change to another of your ships at this base.", _SHIP,
        where=DOCK, names=_kept, changes=_switch),
    act("name_ship", "ship", "Give your ship a name.",
        one("name", "1 to 40 characters", "Second Wind"),
        unless=((lambda deed: not 1 <= len(deed.given["name"].strip()) <= LONGEST_NAME,
                 "invalid_name", f"A name has 1 to {LONGEST_NAME} characters."),),
        changes=_rename),
    act("use_item", "ship", "Use repair kits or fuel cells of your hold.",
        Takes((ITEM, _SOME), {"item_id": "repair_kit", "quantity": 1}),
        unless=((lambda deed: not {"repair_kit", "fuel_cell"}.intersection(named(deed)),
                 "invalid_item", "This cannot be used."),), moves=(Move(HOLD, AWAY),),
        changes=_use),
    act("reload", "combat", "Load a weapon from your hold.",
        one("weapon_instance_id", "The weapon's module ID, from get_ship", "module_id"),
        names=_weapon,
        unless=((lambda deed: deed.thing.ammo >= deed.thing.value("magazine_size"),
                 "magazine_full", "The magazine is full."),),
        moves=(Move(HOLD, AWAY, _rounds, lacks="no_ammo"),), changes=_reload),
    act("cloak", "combat", "Hide your ship, or show it again.",
        Takes((Parameter("enable", "boolean", "True to hide", required=False),),
              {"enable": True}), changes=_cloak),
    ask("get_battle_status", "combat", "See whom you are fighting.",
        _get_battle_status),
    ask("get_queue", "query", "See the action that is under way.", _get_queue),
)  # fmt: skip
