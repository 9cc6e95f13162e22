"""What is done out there: wrecks, thrown away cargo, surveys and drones."""

from __future__ import annotations

from sandbox.game.actions.action import Call
from sandbox.game.actions.damage import die, leave_wreck, wreck_view, wrecks_at
from sandbox.game.config import GameError
from sandbox.game.minor.row import (
    AWAY,
    DOCK,
    GOODS,
    HOLD,
    SPACE,
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
from sandbox.game.world.models import Drone, Wreck
from sandbox.game.world.places import Deposit

STEEL = {"refined_steel": 2}
VALUE = 90
MOST_DRONES = 3
DIGS_TICKS = 5
_DRONE = "mining_drone"


def _get_wrecks(call: Call) -> Json:
    here = [] if call.player.in_transit else wrecks_at(call.state, call.player.poi_id)
    seconds = call.state.config.tick_seconds
    return {"count": len(here), "wrecks": [wreck_view(each, seconds) for each in here]}


def _wreck(deed: Deed) -> Wreck:
    wreck = deed.state.wrecks.get(deed.given["wreck_id"])
    if wreck is None or wreck.poi_id != deed.player.poi_id:
        raise GameError("invalid_wreck", "No such wreck here. Use 'get_wrecks'.")
    return wreck


def _lost_ship(deed: Deed) -> Wreck:
    """A ship's wreck that nobody else has in tow."""
    wreck = _wreck(deed)
    if wreck.type != "ship":
        raise GameError("invalid_wreck", "This is no ship's wreck.")
    towed = [one.id for one in deed.state.players.values() if one.towing == wreck.id]
    if towed not in ([], [deed.player.id]):
        raise GameError("wreck_in_tow", "Somebody else has this wreck in tow.")
    return wreck


def _loot(deed: Deed) -> Goods:
    ((item_id, quantity),) = named(deed).items()
    count = min(quantity, deed.thing.cargo.get(item_id, 0))
    if not count:
        raise GameError("invalid_item", "There is none of it in this wreck.")
    return {item_id: count}


def _empty(deed: Deed) -> Json:
    """A wreck without cargo is gone."""
    if _loot(deed) == deed.thing.cargo:
        del deed.state.wrecks[deed.thing.id]
    return {"quantity": sum(_loot(deed).values())}


def _throw(deed: Deed) -> None:
    me = (deed.player.id, deed.player.username)
    where = deed.player.poi_id
    leave_wreck(
        deed.state, poi_id=where, victim=me, ship_class="", cargo=named(deed)
    )  # fmt: skip


def _blow_up(deed: Deed) -> None:
    me = deed.player
    die(deed.state, me, me.id, me.username, "self_destruct")


def _remove(deed: Deed) -> None:
    del deed.state.wrecks[deed.thing.id]
    if deed.player.towing == deed.thing.id:
        deed.player.towing = ""


SALVAGE = (
    ask("get_wrecks", "salvage", "See the wrecks at your location.", _get_wrecks),
    act("loot_wreck", "salvage", "Take items from a wreck.",
        Takes((*one("wreck_id", "The wreck's ID, from get_wrecks").parameters,
               *GOODS.parameters), {"wreck_id": "wreck_id", **GOODS.example}),
        where=SPACE, names=_wreck,
        moves=(Move(lambda deed: deed.thing.cargo, HOLD, _loot),), changes=_empty),
    act("jettison", "salvage", "Throw items out into space.", GOODS, destructive=True,
        where=SPACE, moves=(Move(HOLD, AWAY),), changes=_throw),
    act("self_destruct", "combat",
        "Destroy your own ship and wake up at your home base.", destructive=True,
        unless=((lambda deed: deed.player.docked_at is not None, "docked",
                 "You are docked. Use 'undock' first."),), changes=_blow_up),
)  # fmt: skip


def _survey(deed: Deed) -> Json:
    system = deed.state.world.systems[deed.player.system_id]
    hidden = [poi.id for poi in system.pois if poi.hidden]
    new = [name for name in hidden if name not in deed.player.revealed]
    deed.player.revealed += new
    return {
        "system_id": system.id,
        "system_name": system.name,
        "newly_revealed": new,
        "already_revealed": [name for name in hidden if name not in new],
    }


def _deposit(deed: Deed) -> Deposit:
    deposits = deed.state.world.pois[deed.player.poi_id].deposits
    if not deposits:
        raise GameError("no_resources", "Nothing to mine here")
    return deposits[0]


def _deploy(deed: Deed) -> Json:
    token, where = deed.state.sources.token(16), deed.player.poi_id
    drone = Drone(token, where, deed.thing.resource_id)
    deed.player.drones.append(drone)
    deed.later(DIGS_TICKS, "drone_update", drone.id)
    return {"drone_id": drone.id, "resource_id": drone.resource_id}


def _drone(deed: Deed) -> Drone:
    for drone in deed.player.drones:
        here = drone.poi_id == deed.player.poi_id
        if drone.id == deed.given["drone_id"] and here:
            return drone
    raise GameError("invalid_drone", "No such drone is here. Use 'get_drones'.")


def _drone_and_load(deed: Deed) -> Goods:
    drone: Drone = deed.thing
    return {_DRONE: 1, **({drone.resource_id: drone.mined} if drone.mined else {})}


def _get_drones(call: Call) -> Json:
    listed = [
        {
            "drone_id": each.id,
            "poi_id": each.poi_id,
            "resource_id": each.resource_id,
            "mined": each.mined,
        }
        for each in call.player.drones
    ]
    return {
        "drones": listed,
        "total_count": len(listed),
        "bandwidth_used": 5 * len(listed),
        "bandwidth_total": 5 * MOST_DRONES,
        "drone_capacity": MOST_DRONES,
    }


_WRECK = one("wreck_id", "The wreck's ID, from get_wrecks")

OUTINGS = (
    act("survey_system", "navigation",
        "Look for places of this system that no chart has.", where=SPACE,
        changes=_survey, teaches=("exploration", lambda deed: 10)),
    ask("get_drones", "drones", "List your drones.", _get_drones),
    act("deploy_drone", "drones", "Leave a mining drone of your hold at this place.",
        notes="It digs by itself. You must be undocked.", where=SPACE, names=_deposit,
        unless=((lambda deed: len(deed.player.drones) >= MOST_DRONES, "no_bandwidth",
                 f"At most {MOST_DRONES} drones at a time."),),
        moves=(Move(HOLD, AWAY, lambda deed: {_DRONE: 1}),), changes=_deploy),
    act("recall_drone", "drones", "Take a drone back with what it has dug.",
        one("drone_id", "The drone's ID, from get_drones"), where=SPACE, names=_drone,
        moves=(Move(AWAY, HOLD, _drone_and_load),),
        changes=lambda deed: deed.player.drones.remove(deed.thing)),
    act("salvage_wreck", "salvage", "Cut a ship's wreck up for its steel.", _WRECK,
        where=SPACE, names=_lost_ship, moves=(Move(AWAY, HOLD, lambda deed: STEEL),),
        changes=_remove, teaches=("crafting_basic", lambda deed: 3)),
    act("tow_wreck", "salvage", "Take a ship's wreck in tow.", _WRECK, where=SPACE,
        names=_lost_ship,
        unless=((lambda deed: bool(deed.player.towing), "already_towing",
                 "You have a wreck in tow already."),),
        changes=lambda deed: setattr(deed.player, "towing", deed.thing.id)),
    act("release_tow", "salvage", "Let the wreck in tow go.",
        unless=((lambda deed: not deed.player.towing, "not_towing",
                 "You have nothing in tow."),),
        changes=lambda deed: setattr(deed.player, "towing", "")),
    act("sell_wreck", "salvage", "Sell the wreck in tow to the scrappers of a base.",
        where=DOCK, names=lambda deed: deed.state.wrecks.get(deed.player.towing),
        unless=((lambda deed: deed.thing is None, "invalid_wreck",
                 "You have nothing in tow."),), earns=lambda deed: VALUE,
        changes=_remove),
)  # fmt: skip
