"""Ships that are kept at bases, and what a captain does to the one he flies."""

from __future__ import annotations

from sandbox.game.config import Json, make_view
from sandbox.game.tool import MOST_QUANTITY, flag, number, text
from sandbox.game.tools.combat import list_opponents, new_ship
from sandbox.game.tools.market import CELL_FUEL
from sandbox.game.tools.rules import Call, Move, act, ask, pick
from sandbox.game.views import view_class, view_ship_briefly
from sandbox.game.world import catalogue
from sandbox.game.world.models import Goods, Ship

MOST_SHIPS = 5
YARD_TICKS = 5
KIT_HULL = 25
LONGEST_NAME = 40
_OPPONENT = make_view("player_id=id username")


def _get_ships(call: Call) -> Json:
    builds = [
        view_class(each)
        for each in catalogue.SHIP_CLASSES.values()
        if each != catalogue.STARTER
    ]
    return {"ships": builds, "count": len(builds)}


def _list_ships(call: Call) -> Json:
    active = call.player.ship
    ships = [_ship_view(call, each) for each in (active, *call.player.hangar)]
    return {
        "ships": ships,
        "count": len(ships),
        "active_ship_id": active.id,
        "active_ship_class": active.class_id,
    }


def _ship_view(call: Call, ship: Ship) -> Json:
    build, place = ship.build, {"location": "active"}
    if ship.base_id:
        name = call.state.world.bases[ship.base_id].name
        place = {"location": f"stored at {name}", "location_base_id": ship.base_id}
    return {
        **view_ship_briefly(ship),
        "is_active": not ship.base_id,
        **place,
        "hull": f"{ship.hull}/{build.hull}",
        "fuel": f"{ship.fuel}/{build.fuel}",
        "cargo_used": ship.cargo_used,
        "modules": len(ship.modules),
    }


def _get_battle_status(call: Call) -> Json:
    others = [_OPPONENT(each) for each in list_opponents(call.state, call.player)]
    return {"in_battle": bool(others), "opponents": others}


def _get_queue(call: Call) -> Json:
    pending = call.player.pending
    queue = [{"command": pending.tool, "tick": pending.due_tick}] if pending else []
    return {"queue": queue, "count": len(queue)}


_find_class = pick(
    "ship_class", lambda call: catalogue.SHIP_CLASSES.values(), "invalid_ship_class",
    "Unknown ship class. Use 'get_ships'.",
    fits=lambda call, build: build is not catalogue.STARTER)  # fmt: skip
_FULL = (
    (lambda call: len(call.player.hangar) >= MOST_SHIPS, "hangar_full",
     f"At most {MOST_SHIPS} ships can be kept."),
)  # fmt: skip


def _keep_new(call: Call) -> Json:
    ship = new_ship(call.state, call.player.id, call.thing)
    ship.base_id = call.base.id
    call.player.hangar.append(ship)
    return {"ship_id": ship.id, "price": call.thing.price}


_find_kept = pick(
    "ship_id", lambda call: call.player.hangar, "invalid_ship",
    "No such ship is kept here. Use 'list_ships'.",
    fits=lambda call, ship: ship.base_id == call.base.id)  # fmt: skip


def _switch(call: Call) -> Json:
    player, ship = call.player, call.thing
    player.hangar.remove(ship)
    player.hangar.append(player.ship)
    player.ship.base_id, ship.base_id = ship.base_id, ""
    player.ship = ship
    return {"ship_class": ship.class_id}


def _use(call: Call) -> None:
    ship, ((item_id, quantity),) = call.player.ship, call.goods().items()
    if item_id == "repair_kit":
        ship.hull = min(ship.build.hull, ship.hull + KIT_HULL * quantity)
    else:
        ship.fuel = min(ship.build.fuel, ship.fuel + CELL_FUEL * quantity)


_find_weapon = pick("weapon_instance_id", lambda call: call.player.ship.modules,
                    "invalid_weapon", "No such weapon is fitted. Use 'get_ship'.")  # fmt: skip


def _list_rounds(call: Call) -> Goods:
    """As many as the magazine lacks and the hold has, one at least."""
    name = catalogue.AMMUNITION[call.thing.type_id]
    missing = call.thing.value("magazine_size") - call.thing.ammo
    return {name: max(1, min(missing, call.player.ship.cargo.get(name, 0)))}


def _reload(call: Call) -> Json:
    call.thing.ammo += sum(_list_rounds(call).values())
    name = catalogue.MODULES[call.thing.type_id]["name"]
    return {"weapon_name": name, "current_ammo": call.thing.ammo}


def _cloak(call: Call) -> Json:
    call.player.looks.cloaked = call.given.get("enable", True)
    _show_change(call)
    return {"cloaked": call.player.looks.cloaked}


def _rename(call: Call) -> Json:
    call.player.ship.name = call.given["name"].strip()
    _show_change(call)
    return {"name": call.player.ship.name}


def _show_change(call: Call) -> None:
    """Tell those who are near that a ship is not as they have seen it (era C)."""
    state, player = call.state, call.player
    if state.config.is_modern and not player.in_transit:
        data = {"tick": state.tick, "poi_id": player.poi_id}
        call.tell_others("observation_update", data)


_SOME: Json = {"required": False, "least": 1, "most": MOST_QUANTITY}

SHIPS = (
    ask("get_ships", "ship", "List the ship classes that shipyards build.", _get_ships),
    ask("list_ships", "ship", "List the ships you own.", _list_ships),
    act("buy_ship", "ship", "Buy a ship; it is kept at this base.", "ship_class",
        where="dock", service="shipyard", names=_find_class, unless=_FULL,
        costs=lambda call: call.thing.price,
        changes=_keep_new),
    act("commission_ship", "ship",
        "Have a ship built; it is kept at this base when it is done.", "ship_class",
        where="dock", service="shipyard", names=_find_class, unless=_FULL,
        costs=lambda call: call.thing.price,
        changes=lambda call: call.schedule(YARD_TICKS, "ship_commission_complete",
                                           call.thing.id)),
    act("sell_ship", "ship", "Sell a ship that is kept at this base.", "ship_id",
        destructive=True, where="dock", names=_find_kept,
        earns=lambda call: call.thing.build.price // 2,
        changes=lambda call: call.player.hangar.remove(call.thing)),
    act("switch_ship", "ship", "Change to another of your ships at this base.",
        "ship_id", where="dock", names=_find_kept, changes=_switch),
    act("name_ship", "ship", "Give your ship a name.",
        text("name", "1 to 40 characters", "Second Wind"),
        unless=((lambda call: not 1 <= len(call.given["name"].strip()) <= LONGEST_NAME,
                 "invalid_name", f"A name has 1 to {LONGEST_NAME} characters."),),
        changes=_rename),
    act("use_item", "ship", "Use repair kits or fuel cells of your hold.",
        "item_id", number("quantity", "How many", 1, **_SOME),
        example={"item_id": "repair_kit"},
        unless=((lambda call: not {"repair_kit", "fuel_cell"}.intersection(call.goods()),
                 "invalid_item", "This cannot be used."),), moves=(Move(Call.hold, None),),
        changes=_use),
    act("reload", "combat", "Load a weapon from your hold.",
        text("weapon_instance_id", "The weapon's module ID, from get_ship", "module_id"),
        names=_find_weapon,
        unless=((lambda call: call.thing.type_id not in catalogue.AMMUNITION,
                 "not_weapon", "This module takes no ammunition."),
                (lambda call: call.thing.ammo >= call.thing.value("magazine_size"),
                 "magazine_full", "The magazine is full."),),
        moves=(Move(Call.hold, None, _list_rounds, lacks="no_ammo"),), changes=_reload),
    act("cloak", "combat", "Hide your ship, or show it again.",
        flag("enable", "True to hide", required=False), changes=_cloak),
    ask("get_battle_status", "combat", "See whom you are fighting.",
        _get_battle_status),
    ask("get_queue", "query", "See the action that is under way.", _get_queue),
)  # fmt: skip
