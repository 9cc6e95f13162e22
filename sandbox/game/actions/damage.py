"""What shots do: damage, battles, deaths, and the wrecks that stay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from sandbox.game.config import rfc3339
from sandbox.game.sessions import Event
from sandbox.game.state import State
from sandbox.game.world.catalogue import STARTER, ShipClass
from sandbox.game.world.models import Module, Player, Ship, Wreck

DAMAGE_TYPE = "kinetic"
LASTS_TICKS = 60
CLONE_COST = 50


class Target(Protocol):
    hull: int
    shield: int


# Somebody's id and name.
Who = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Hit:
    """What one shot took away."""

    shield: int
    hull: int
    destroyed: bool


def shoot(target: Target, damage: int) -> Hit:
    """Take damage from the shield first, then from the hull."""
    shield = min(damage, target.shield)
    hull = min(damage - shield, target.hull)
    target.shield -= shield
    target.hull -= hull
    return Hit(shield, hull, target.hull == 0)


def shot_event(state: State, attacker: Who, target: Who, hit: Hit) -> Event:
    """A shot as both sides hear of it: by name in era A, by id in era C."""
    name, sides = "combat_update", {"attacker": attacker[1], "target": target[1]}
    count = "damage"
    if state.config.era == "C":
        name, sides = "battle_damage", {"attacker_id": attacker[0]}
        sides["target_id"] = target[0]
        count = "total_damage"
    data = {
        "tick": state.tick,
        **sides,
        count: hit.shield + hit.hull,
        "damage_type": DAMAGE_TYPE,
        "shield_hit": hit.shield,
        "hull_hit": hit.hull,
        "destroyed": hit.destroyed,
    }
    return Event(data, name, "combat")


def opponents(state: State, player: Player) -> list[Player]:
    """The captains that a captain shoots at, or is shot at by."""
    return [
        other
        for other in state.players.values()
        if other.target_id == player.id or player.target_id == other.id
    ]


def begin_battle(state: State, attacker: Player, target: Player) -> None:
    """Take a captain as the target; both hear of a battle that is new (era C)."""
    if target not in opponents(state, attacker):
        _tell_battle(state, attacker, target, "battle_started")
    attacker.target_id = target.id


def leave_battle(state: State, player: Player) -> None:
    """Take a captain out of his battles: he flies away, or his ship is lost."""
    for other in opponents(state, player):
        _tell_battle(state, player, other, "battle_ended")
        if other.target_id == player.id:
            other.target_id = None
    player.target_id = None


def _tell_battle(state: State, one: Player, other: Player, kind: str) -> None:
    if state.config.era == "C":
        data = {"tick": state.tick, "player_ids": [one.id, other.id]}
        state.tell(Event(data, kind, "combat"), one, other)


def leave_wreck(
    state: State, *, poi_id: str, victim: Who, ship_class: str, cargo: Mapping[str, int]
) -> Wreck:
    """Leave a wreck; no ship class means thrown away cargo."""
    wreck = Wreck(
        id=state.sources.token(16),
        type="ship" if ship_class else "jettison",
        poi_id=poi_id,
        system_id=state.world.pois[poi_id].system_id,
        victim_id=victim[0],
        victim_name=victim[1],
        ship_class=ship_class,
        cargo=dict(cargo),
        created_ns=state.sources.now_ns(),
        expire_tick=state.tick + LASTS_TICKS,
    )
    state.wrecks[wreck.id] = wreck
    return wreck


def clear_wrecks(state: State) -> None:
    """Take away what has floated long enough (once per tick)."""
    gone = [one.id for one in state.wrecks.values() if one.expire_tick <= state.tick]
    for name in gone:
        del state.wrecks[name]
    for player in state.players.values():
        if player.towing in gone:
            player.towing = ""


def new_ship(state: State, owner_id: str, build: ShipClass) -> Ship:
    """A ship as it leaves the yard."""
    return Ship(
        id=state.sources.token(16),
        owner_id=owner_id,
        class_id=build.id,
        created_at=rfc3339(state.sources.now_ns()),
        hull=build.hull,
        shield=build.shield,
        fuel=build.fuel,
        modules=[Module(state.sources.token(16), kind) for kind in build.modules],
    )


def die(
    state: State, player: Player, killer_id: str, killer_name: str, cause: str
) -> None:
    """Bring the captain home in a new ship without cargo, and tell him."""
    cost = min(player.credits, CLONE_COST)
    lost = player.ship.class_id
    me, where, cargo = (player.id, player.username), player.poi_id, player.ship.cargo
    wreck = leave_wreck(state, poi_id=where, victim=me, ship_class=lost, cargo=cargo)
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
    state.tell(Event(data, "player_died"), player)


def clear_queue(state: State, player: Player, reason: str) -> None:
    """Drop what a captain was about to do; since it has a name he is told (era C)."""
    pending, player.pending = player.pending, None
    if pending is not None and state.config.era == "C":
        data = {"tick": state.tick, "reason": reason, "cleared": 1}
        state.tell(Event(data, "queue_cleared"), player)
