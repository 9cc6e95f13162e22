"""The end of a ship: a wreck stays, and the captain wakes up at home."""

from __future__ import annotations

from sandbox.game.battles import leave_battle
from sandbox.game.catalogue import STARTER
from sandbox.game.models import Player
from sandbox.game.notifications import Event
from sandbox.game.shipyard import new_ship
from sandbox.game.state import State
from sandbox.game.wrecks import leave_wreck

CLONE_COST = 50


def die(
    state: State, player: Player, killer_id: str, killer_name: str, cause: str
) -> None:
    """Bring the captain home in a new ship without cargo, and tell him."""
    cost = min(player.credits, CLONE_COST)
    lost = player.ship.class_id
    wreck = leave_wreck(
        state,
        poi_id=player.poi_id,
        victim=(player.id, player.username),
        ship_class=lost,
        cargo=player.ship.cargo,
    )
    state.leave(player)
    player.spend(cost)
    player.stats["ships_lost"] += 1
    leave_battle(state, player)
    clear_queue(state, player, "ship destroyed")
    player.claim, player.coverage = player.claim + player.coverage, 0
    player.towing = ""
    player.ship = new_ship(state, player.id, STARTER)
    base = state.world.bases[player.home_base]
    state.arrive(player, base.poi_id)
    player.docked_at = base.id
    data = {
        "killer_id": killer_id,
        "killer_name": killer_name,
        "respawn_base": base.id,
        "clone_cost": cost,
        "insurance_payout": player.claim,
        "ship_lost": lost,
        "new_ship_class": STARTER.id,
        "wreck_id": wreck.id,
        "cause": cause,
    }
    state.tell_event(player, Event(data, "player_died"))


def clear_queue(state: State, player: Player, reason: str) -> None:
    """Drop what a captain was about to do; since it has a name he is told (era C)."""
    pending, player.pending = player.pending, None
    if pending is not None and state.config.era == "C":
        data = {"tick": state.tick, "reason": reason, "cleared": 1}
        state.tell_event(player, Event(data, "queue_cleared"))
