"""deploy_drone and recall_drone."""

from __future__ import annotations

from sandbox.game.actions.action import Action, Arguments, Event, Intent
from sandbox.game.actions.goods import room_for
from sandbox.game.catalogue import ITEMS
from sandbox.game.errors import GameError, must_undock
from sandbox.game.holdings import Drone
from sandbox.game.models import Player
from sandbox.game.state import State

MOST_DRONES = 3
ITEM = "mining_drone"


def _prepare_deploy(state: State, player: Player, arguments: Arguments) -> Intent:
    if player.docked_at:
        raise must_undock()
    deposits = state.world.pois[player.poi_id].deposits
    if not deposits:
        raise GameError("no_resources", "Nothing to mine here")
    if not player.ship.cargo.get(ITEM):
        raise GameError("insufficient_items", "There is no drone in your hold.")
    if len(player.drones) >= MOST_DRONES:
        raise GameError("no_bandwidth", f"At most {MOST_DRONES} drones at a time.")
    given = {"resource_id": deposits[0].resource_id}
    return Intent(given, {**given, "message": "Launching..."})


def _finish_deploy(state: State, player: Player, arguments: Arguments) -> list[Event]:
    given = _prepare_deploy(state, player, arguments).arguments
    player.ship.unload(ITEM, 1)
    drone = Drone(state.sources.token(16), player.poi_id, given["resource_id"])
    player.drones.append(drone)
    return [Event({"action": "deploy_drone", "drone_id": drone.id, **given})]


def _near(player: Player, arguments: Arguments) -> Drone:
    for drone in player.drones:
        if drone.id == arguments["drone_id"] and drone.poi_id == player.poi_id:
            return drone
    raise GameError("invalid_drone", "No such drone is here. Use 'get_drones'.")


def _prepare_recall(state: State, player: Player, arguments: Arguments) -> Intent:
    drone = _near(player, arguments)
    needed = ITEMS[ITEM].size + drone.mined * ITEMS[drone.resource_id].size
    room_for(player, ITEMS[drone.resource_id], needed)
    given = {"drone_id": drone.id}
    return Intent(given, {**given, "message": "Calling it back..."})


def _finish_recall(state: State, player: Player, arguments: Arguments) -> list[Event]:
    """The drone comes home with what it has dug."""
    _prepare_recall(state, player, arguments)
    drone = _near(player, arguments)
    player.drones.remove(drone)
    player.ship.load(ITEM, 1)
    if drone.mined:
        player.ship.load(drone.resource_id, drone.mined)
    own = {"action": "recall_drone", "drone_id": drone.id, "mined": drone.mined}
    return [Event(own)]


DRONING = (
    Action("deploy_drone", _prepare_deploy, _finish_deploy, needs="space"),
    Action("recall_drone", _prepare_recall, _finish_recall, needs="space"),
)
