"""scan: look closely at somebody at the same place."""

from __future__ import annotations

from typing import Any

from sandbox.game.actions.action import Action, Arguments, Event, Intent
from sandbox.game.errors import GameError
from sandbox.game.learning import teach
from sandbox.game.models import Player
from sandbox.game.state import State


def no_such_target(target_id: str) -> GameError:
    return GameError(
        "invalid_target",
        f"No target '{target_id}' at this location. Use 'get_nearby' to see who is.",
    )


def _prepare(state: State, player: Player, arguments: Arguments) -> Intent:
    target_id = arguments["target_id"]
    if _look(state, player, target_id) is None:
        raise no_such_target(target_id)
    return Intent(
        {"target_id": target_id},
        {"target_id": target_id, "message": "Scanning..."},
    )


def _finish(state: State, player: Player, arguments: Arguments) -> list[Event]:
    target_id = arguments["target_id"]
    seen = _look(state, player, target_id)
    teach(state, player, "scanning", 2)
    found: dict[str, Any] = {"target_id": target_id, "success": seen is not None}
    # A target that left in time is a scan without success, not an error.
    found["revealed_info"] = list(seen or ())
    target = state.players.get(target_id)
    if seen is not None and target is not None:
        state.tell(target, state.notification("scan_detected", _noticed(player)))
    return [Event(found | (seen or {}), "scan_result", "combat")]


def _noticed(scanner: Player) -> dict[str, Any]:
    return {
        "scanner_id": scanner.id,
        "scanner_username": scanner.username,
        "scanner_ship_class": scanner.ship.class_id,
        "revealed_info": ["username", "ship_class", "hull", "shield", "cloaked"],
        "message": f"{scanner.username} has scanned your ship.",
    }


def _look(state: State, player: Player, target_id: str) -> dict[str, Any] | None:
    """Describe a player, captain or pirate at the same place."""
    for other in state.players_at(player.poi_id):
        if other.id == target_id != player.id:
            ship = other.ship
            return _ship(other.username, ship.class_id, ship.hull, ship.shield)
    for npc in state.npcs_at(player.poi_id):
        if npc.id == target_id:
            return _ship(npc.username, npc.ship_class, 100, 50)
    for pirate in state.pirates_at(player.poi_id):
        if pirate.id == target_id:
            return _ship(pirate.name, "pirate", pirate.hull, pirate.shield)
    return None


def _ship(username: str, ship_class: str, hull: int, shield: int) -> dict[str, Any]:
    return {
        "username": username,
        "ship_class": ship_class,
        "hull": hull,
        "shield": shield,
        "cloaked": False,
    }


SCAN = Action("scan", _prepare, _finish)
