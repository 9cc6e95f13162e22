"""The end of a ship: a wreck stays, and the captain wakes up at home."""

from __future__ import annotations

from agents.game.sandbox.catalogue import STARTER
from agents.game.sandbox.models import Module, Player, Ship
from agents.game.sandbox.notifications import Event
from agents.game.sandbox.stamps import rfc3339
from agents.game.sandbox.state import State
from agents.game.sandbox.wrecks import leave_wreck

CLONE_COST = 50


def starter_ship(state: State, owner_id: str) -> Ship:
    """A new ship of the kind that every captain begins with."""
    return Ship(
        id=state.sources.token(16),
        owner_id=owner_id,
        class_id=STARTER.id,
        created_at=rfc3339(state.sources.now_ns()),
        hull=STARTER.hull,
        shield=STARTER.shield,
        fuel=STARTER.fuel,
        modules=[Module(state.sources.token(16), kind) for kind in STARTER.modules],
    )


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
    player.pending = None
    player.target_id = None
    player.wanted = None
    player.ship = starter_ship(state, player.id)
    base = state.world.bases[player.home_base]
    state.arrive(player, base.poi_id)
    player.docked_at = base.id
    data = {
        "killer_id": killer_id,
        "killer_name": killer_name,
        "respawn_base": base.id,
        "clone_cost": cost,
        "insurance_payout": 0,
        "ship_lost": lost,
        "new_ship_class": STARTER.id,
        "wreck_id": wreck.id,
        "cause": cause,
    }
    state.tell_event(player, Event(data, "player_died"))
