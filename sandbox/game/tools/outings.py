"""What is done out there: wrecks, thrown away cargo, surveys and drones."""

from __future__ import annotations

from sandbox.game.config import NS, GameError, Json, format_time, make_view
from sandbox.game.tool import GOODS, text
from sandbox.game.tools.combat import LASTS_TICKS, kill, leave_wreck
from sandbox.game.tools.rules import Call, Move, act, ask, pick
from sandbox.game.views import view_goods_briefly
from sandbox.game.world.galaxy import Deposit
from sandbox.game.world.models import Drone, Goods, Wreck

STEEL = {"refined_steel": 2}
VALUE = 90
MOST_DRONES = 3
DIGS_TICKS = 5
_DRONE = "mining_drone"
_WRECK_VIEW = make_view("id type poi_id system_id victim_id victim_name ship_class")
_DRONE_VIEW = make_view("drone_id=id poi_id resource_id mined")


def _get_wrecks(call: Call) -> Json:
    here = "" if call.player.in_transit else call.player.poi_id
    lasts_ns = int(LASTS_TICKS * call.state.config.tick_seconds * NS)
    wrecks = [
        {
            **_WRECK_VIEW(wreck),
            "cargo": view_goods_briefly(wreck.cargo),
            "modules": [],
            "salvage_value": 0,
            "created_at": format_time(wreck.created_ns),
            "expires_at": format_time(wreck.created_ns + lasts_ns),
            "expire_tick": wreck.expire_tick,
        }
        for wreck in call.state.wrecks.values()
        if wreck.poi_id == here
    ]
    return {"count": len(wrecks), "wrecks": wrecks}


_find_wreck = pick(
    "wreck_id", lambda call: call.state.wrecks.values(), "invalid_wreck",
    "No such wreck here. Use 'get_wrecks'.",
    fits=lambda call, wreck: wreck.poi_id == call.player.poi_id)  # fmt: skip


def _find_lost_ship(call: Call) -> Wreck:
    """A ship's wreck that nobody else has in tow."""
    wreck: Wreck = _find_wreck(call)
    if wreck.type != "ship":
        raise GameError("invalid_wreck", "This is no ship's wreck.")
    towed = [one.id for one in call.state.players.values() if one.towing == wreck.id]
    if towed not in ([], [call.player.id]):
        raise GameError("wreck_in_tow", "Somebody else has this wreck in tow.")
    return wreck


def _list_loot(call: Call) -> Goods:
    ((item_id, quantity),) = call.goods().items()
    count = min(quantity, call.thing.cargo.get(item_id, 0))
    if not count:
        raise GameError("invalid_item", "There is none of it in this wreck.")
    return {item_id: count}


def _empty(call: Call) -> Json:
    """A wreck without cargo is gone."""
    if _list_loot(call) == call.thing.cargo:
        del call.state.wrecks[call.thing.id]
    return {"quantity": sum(_list_loot(call).values())}


def _throw(call: Call) -> None:
    me, where = (call.player.id, call.player.username), call.player.poi_id
    goods = call.goods()
    leave_wreck(call.state, poi_id=where, victim=me, ship_class="", cargo=goods)


def _remove(call: Call) -> None:
    del call.state.wrecks[call.thing.id]
    if call.player.towing == call.thing.id:
        call.player.towing = ""


SALVAGE = (
    ask("get_wrecks", "salvage", "See the wrecks at your location.", _get_wrecks),
    act("loot_wreck", "salvage", "Take items from a wreck.",
        "wreck_id", *GOODS,
        where="space", names=_find_wreck,
        moves=(Move(lambda call: call.thing.cargo, Call.hold, _list_loot),), changes=_empty),
    act("jettison", "salvage", "Throw items out into space.", *GOODS,
        destructive=True, where="space", moves=(Move(Call.hold, None),), changes=_throw),
    act("self_destruct", "combat",
        "Destroy your own ship and wake up at your home base.", destructive=True,
        unless=((lambda call: call.player.docked_at is not None, "docked",
                 "You are docked. Use 'undock' first."),), changes=lambda call: kill(call.state, call.player, call.player.id,
                                  call.player.username, "self_destruct")),
)  # fmt: skip


def _survey(call: Call) -> Json:
    system = call.state.world.systems[call.player.system_id]
    hidden = [poi.id for poi in system.pois if poi.hidden]
    new = [name for name in hidden if name not in call.player.revealed]
    call.player.revealed += new
    return {
        "system_id": system.id,
        "system_name": system.name,
        "newly_revealed": new,
        "already_revealed": [name for name in hidden if name not in new],
    }


def _find_deposit(call: Call) -> Deposit:
    deposits = call.state.world.pois[call.player.poi_id].deposits
    if not deposits:
        raise GameError("no_resources", "Nothing to mine here")
    return deposits[0]


def _deploy(call: Call) -> Json:
    drone = Drone(call.token(), call.player.poi_id, call.thing.resource_id)
    call.player.drones.append(drone)
    call.schedule(DIGS_TICKS, "drone_update", drone.id)
    return {"drone_id": drone.id, "resource_id": drone.resource_id}


_find_drone = pick(
    "drone_id", lambda call: call.player.drones, "invalid_drone",
    "No such drone is here. Use 'get_drones'.",
    fits=lambda call, drone: drone.poi_id == call.player.poi_id)  # fmt: skip


def _drone_and_load(call: Call) -> Goods:
    drone: Drone = call.thing
    load = {drone.resource_id: drone.mined} if drone.mined else {}
    return {_DRONE: 1, **load}


def _get_drones(call: Call) -> Json:
    listed = [_DRONE_VIEW(drone) for drone in call.player.drones]
    return {
        "drones": listed,
        "total_count": len(listed),
        "bandwidth_used": 5 * len(listed),
        "bandwidth_total": 5 * MOST_DRONES,
        "drone_capacity": MOST_DRONES,
    }


OUTINGS = (
    act("survey_system", "navigation",
        "Look for places of this system that no chart has.", where="space",
        changes=_survey, teaches=("exploration", lambda call: 10)),
    ask("get_drones", "drones", "List your drones.", _get_drones),
    act("deploy_drone", "drones", "Leave a mining drone of your hold at this place.",
        notes="It digs by itself. You must be undocked.", where="space", names=_find_deposit,
        unless=((lambda call: len(call.player.drones) >= MOST_DRONES, "no_bandwidth",
                 f"At most {MOST_DRONES} drones at a time."),),
        moves=(Move(Call.hold, None, lambda call: {_DRONE: 1}),), changes=_deploy),
    act("recall_drone", "drones", "Take a drone back with what it has dug.",
        text("drone_id", "The drone's ID, from get_drones", "drone_id"), where="space",
        names=_find_drone,        moves=(Move(None, Call.hold, _drone_and_load),),
        changes=lambda call: call.player.drones.remove(call.thing)),
    act("salvage_wreck", "salvage", "Cut a ship's wreck up for its steel.", "wreck_id",
        where="space", names=_find_lost_ship, moves=(Move(None, Call.hold, lambda call: STEEL),),
        changes=_remove, teaches=("crafting_basic", lambda call: 3)),
    act("tow_wreck", "salvage", "Take a ship's wreck in tow.", "wreck_id",
        where="space", names=_find_lost_ship,
        unless=((lambda call: bool(call.player.towing), "already_towing",
                 "You have a wreck in tow already."),),
        changes=lambda call: setattr(call.player, "towing", call.thing.id)),
    act("release_tow", "salvage", "Let the wreck in tow go.",
        unless=((lambda call: not call.player.towing, "not_towing",
                 "You have nothing in tow."),),
        changes=lambda call: setattr(call.player, "towing", "")),
    act("sell_wreck", "salvage", "Sell the wreck in tow to the scrappers of a base.",
        where="dock", names=lambda call: call.state.wrecks.get(call.player.towing),
        unless=((lambda call: call.thing is None, "invalid_wreck",
                 "You have nothing in tow."),), earns=lambda call: VALUE,
        changes=_remove),
)  # fmt: skip
