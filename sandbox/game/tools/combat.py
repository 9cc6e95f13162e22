"""What shots do: battles, deaths, the wrecks that stay, and what pirates do by themselves.

A ship's hull gun is its only weapon here. A pirate shoots back at every tick until one
of the two is gone or the ship leaves the place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from sandbox.game.config import (
    GameError,
    Json,
    make_dice,
    make_hex_id,
    make_view,
    must_undock,
)
from sandbox.game.sessions import Event
from sandbox.game.state import State
from sandbox.game.tool import number, text
from sandbox.game.tools.rules import Call, Intent, act
from sandbox.game.world.catalogue import STARTER, ShipClass
from sandbox.game.world.models import Module, Player, Ship, Wreck
from sandbox.game.world.npcs import TIERS, Pirate, make_pirate

_GUN = "Hull Gun"
_DAMAGE = 12
_BACK_AFTER = 50
_KILL_XP = 20
_TARGET = text(
    "target_id", "The ID of a ship at your location, from get_nearby", "player_id"
)
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


def make_shot_event(state: State, attacker: Who, target: Who, hit: Hit) -> Event:
    """A shot as both sides hear of it: by name in era A, by id in era C."""
    name, count = "combat_update", "damage"
    sides = {"attacker": attacker[1], "target": target[1]}
    if state.config.is_modern:
        name, count = "battle_damage", "total_damage"
        sides = {"attacker_id": attacker[0], "target_id": target[0]}
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


def list_opponents(state: State, player: Player) -> list[Player]:
    """The captains that a captain shoots at, or is shot at by."""
    return [
        other
        for other in state.players.values()
        if other.target_id == player.id or player.target_id == other.id
    ]


def leave_battle(state: State, player: Player) -> None:
    """Take a captain out of his battles: he flies away, or his ship is lost."""
    for other in list_opponents(state, player):
        _tell_battle(state, player, other, "battle_ended")
        if other.target_id == player.id:
            other.target_id = None
    player.target_id = None


def _tell_battle(state: State, one: Player, other: Player, kind: str) -> None:
    if state.config.is_modern:
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
        created_at=state.now,
        hull=build.hull,
        shield=build.shield,
        fuel=build.fuel,
        modules=[Module(state.sources.token(16), kind) for kind in build.modules],
    )


def kill(
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
    if pending is not None and state.config.is_modern:
        data = {"tick": state.tick, "reason": reason, "cleared": 1}
        state.tell(Event(data, "queue_cleared"), player)


# --- The tools


def _no_such_target(target_id: str) -> GameError:
    return GameError(
        "invalid_target",
        f"No target '{target_id}' at this location. Use 'get_nearby' to see who is.",
    )


def _prepare_scan(call: Call) -> Intent:
    if _inspect(call) is None:
        raise _no_such_target(call.given["target_id"])
    return Intent(call.given, {**call.given, "message": "Scanning..."})


def _finish_scan(call: Call) -> list[Event]:
    player, target_id = call.player, call.given["target_id"]
    # A target that left in time is a scan without success, not an error.
    seen = _inspect(call)
    call.teach("scanning", 2)
    found = {"target_id": target_id, "success": seen is not None}
    target = call.state.players.get(target_id)
    if seen is not None and target is not None:
        noticed = {
            "scanner_id": player.id,
            "scanner_username": player.username,
            "scanner_ship_class": player.ship.class_id,
            "revealed_info": ["username", "ship_class", "hull", "shield", "cloaked"],
            "message": f"{player.username} has scanned your ship.",
        }
        call.tell(target, "scan_detected", "system", noticed)
    told = {**found, "revealed_info": list(seen or ()), **(seen or {})}
    return [Event(told, "scan_result", "combat")]


def _inspect(call: Call) -> Json | None:
    state, here, target_id = call.state, call.player.poi_id, call.given["target_id"]
    seen: dict[str, tuple[str, str, int, int]] = {}
    for pirate in state.pirates_at(here):
        seen[pirate.id] = (pirate.name, "pirate", pirate.hull, pirate.shield)
    for npc in state.npcs_at(here):
        seen[npc.id] = (npc.username, npc.ship_class, 100, 50)
    for other in state.players_at(here):
        ship = other.ship
        seen[other.id] = (other.username, ship.class_id, ship.hull, ship.shield)
    if target_id not in seen or target_id == call.player.id:
        return None
    names = ("username", "ship_class", "hull", "shield")
    return dict(zip(names, seen[target_id], strict=True)) | {"cloaked": False}


def _prepare_attack(call: Call) -> Intent:
    if call.player.docked_at:
        raise must_undock()
    weapon = call.given.get("weapon_idx", 0)
    if weapon != 0:
        raise GameError("invalid_weapon", f"No weapon at index {weapon}. Use 0.")
    target = _find_target(call)
    name = target.name if isinstance(target, Pirate) else target.username
    preview = {
        "target_id": target.id,
        "target_name": name,
        "weapon_idx": 0,
        "weapon_name": _GUN,
        "damage_type": DAMAGE_TYPE,
        "message": f"Attacking {name}",
    }
    return Intent({"target_id": target.id}, preview)


def _find_target(call: Call) -> Pirate | Player:
    target_id, here = call.given["target_id"], call.player.poi_id
    targets: list[Pirate | Player] = [*call.state.pirates_at(here)]
    for target in targets + call.state.players_at(here):
        docked = isinstance(target, Player) and target.docked_at
        if target.id == target_id != call.player.id and not docked:
            return target
    raise _no_such_target(target_id)


def _finish_attack(call: Call) -> list[Event]:
    state, player, target = call.state, call.player, _find_target(call)
    if isinstance(target, Pirate):
        return _shoot_pirate(call, target)
    # Of a battle that is new both hear.
    if target not in list_opponents(state, player):
        _tell_battle(state, player, target, "battle_started")
    player.target_id = target.id
    hit = shoot(target.ship, _DAMAGE)
    me, other = (player.id, player.username), (target.id, target.username)
    shot = make_shot_event(state, me, other, hit)
    state.tell(shot, target)
    if hit.destroyed:
        player.stats["ships_destroyed"] += 1
        kill(state, target, player.id, player.username, "player")
    return [shot]


def _shoot_pirate(call: Call, pirate: Pirate) -> list[Event]:
    state, player = call.state, call.player
    hit = shoot(pirate, _DAMAGE)
    me = (player.id, player.username)
    shot = make_shot_event(state, me, (pirate.id, pirate.name), hit)
    if not hit.destroyed:
        player.target_id, pirate.victim = pirate.id, player.id
        pirate.strike_tick = state.tick
        return [shot]
    player.target_id = pirate.victim = None
    return [shot, _destroy_pirate(call, pirate)]


def _destroy_pirate(call: Call, pirate: Pirate) -> Event:
    state, player = call.state, call.player
    pirate.back_tick = state.tick + _BACK_AFTER
    reward = pirate.max_hull
    player.earn(reward)
    player.stats["pirates_destroyed"] += 1
    call.teach("weapons_basic", _KILL_XP)
    player.advance_missions("kill_pirate", "", 1)
    steel, who = 1 + pirate.max_hull // 50, (pirate.id, pirate.name)
    cargo, where = {"refined_steel": steel}, pirate.poi_id
    wreck = leave_wreck(
        state, poi_id=where, victim=who, ship_class="pirate", cargo=cargo
    )
    modern = state.config.is_modern
    told = {
        "pirate_id": pirate.id,
        "pirate_name": pirate.name,
        "credits_earned" if modern else "credits_reward": reward,
        "combat_xp" if modern else "xp_gained": _KILL_XP,
        "wreck_id": wreck.id,
        "message": f"{pirate.name} destroyed. Bounty: {reward}cr.",
    }
    return Event(told, "pirate_destroyed", "combat")


ACTIONS = (
    act("scan", "combat", "Scan a ship at your location.", _TARGET,
        notes="The result comes as a notification.",
        steps=(_prepare_scan, _finish_scan)),
    act("attack", "combat", "Attack a pirate or a captain at your location.", _TARGET,
        number("weapon_idx", "Which weapon", 0, required=False),
        example={"target_id": "pirate_id"}, destructive=True, needs="space",
        notes="A pirate shoots back until one of you is gone or you leave.",
        steps=(_prepare_attack, _finish_attack)),
)  # fmt: skip


# --- Pirates

WARNING_TICKS = 3
# Below this police level pirates attack; elsewhere they only shoot back.
LAWLESS = 20
_RAIDER_STAYS = 10
_NAME = make_view("pirate_id=id pirate_name=name tier is_boss")
_OWN_SHIP = make_view("your_hull=hull your_max_hull=build.hull your_shield=shield")
_RAIDERS = ("Jackdaw", "Split Fang", "Cold Mercy", "Ragged Anne")


def move_pirates(state: State) -> None:
    for pirate in list(state.pirates.values()):
        if pirate.alive:
            _act(state, pirate)
        elif state.tick >= pirate.back_tick:
            if pirate.raider:
                del state.pirates[pirate.id]
            pirate.hull, pirate.shield = pirate.max_hull, pirate.max_shield
    if state.config.raid_chance:
        _raid(state)


def _act(state: State, pirate: Pirate) -> None:
    victim = state.players.get(pirate.victim or "")
    if victim is not None and _within_reach(state, victim, pirate.poi_id):
        pirate.leaves_tick = state.tick + _RAIDER_STAYS
        if state.tick >= pirate.strike_tick:
            _shoot(state, pirate, victim)
        return
    if victim is not None and victim.target_id == pirate.id:
        victim.target_id = None
    pirate.victim = None
    if pirate.raider and state.tick >= pirate.leaves_tick:
        del state.pirates[pirate.id]
    elif pirate.raider or _lawless(state, pirate.poi_id):
        for player in state.players_at(pirate.poi_id):
            if _within_reach(state, player, pirate.poi_id):
                _warn(state, pirate, player)
                return


def _within_reach(state: State, player: Player, poi_id: str) -> bool:
    return (
        player.poi_id == poi_id
        and not player.docked_at
        and not player.in_transit
        and state.sessions.is_online(player.id)
    )


def _lawless(state: State, poi_id: str) -> bool:
    system = state.world.systems[state.world.pois[poi_id].system_id]
    return system.police_level < LAWLESS


def _warn(state: State, pirate: Pirate, player: Player) -> None:
    pirate.victim = player.id
    pirate.strike_tick = state.tick + WARNING_TICKS
    player.target_id = player.target_id or pirate.id
    message = f"{pirate.name} locks weapons on you. Leave or fight."
    data = {**_NAME(pirate), "attack_in_ticks": WARNING_TICKS, "message": message}
    state.tell(Event(data, "pirate_warning", "combat"), player)


def _shoot(state: State, pirate: Pirate, player: Player) -> None:
    damage = TIERS[pirate.tier].damage
    hit = shoot(player.ship, damage)
    ship = player.ship
    left = {"player_hull": ship.hull, "player_shield": ship.shield}
    if state.config.is_modern:
        left = _OWN_SHIP(ship)
    data = {
        "tick": state.tick,
        "pirate_id": pirate.id,
        "pirate_name": pirate.name,
        "damage": damage,
        "damage_type": DAMAGE_TYPE,
        **left,
        "destroyed": hit.destroyed,
    }
    state.tell(Event(data, "pirate_combat", "combat"), player)
    if hit.destroyed:
        pirate.victim = None
        kill(state, player, pirate.id, pirate.name, "pirate")


def _raid(state: State) -> None:
    for name in state.sessions.online():
        player = state.players[name]
        at_risk = _within_reach(state, player, player.poi_id) and not player.target_id
        if not at_risk or not _lawless(state, player.poi_id):
            continue
        rng = make_dice(state.config.seed, state.tick, player.username, "raid")
        if rng.random() < state.config.raid_chance:
            ambush(state, player)


def ambush(state: State, player: Player, tier: str = "small") -> Pirate:
    """Put a raider to a ship's place, and tell who is there; it attacks anywhere.

    Raises KeyError for an unknown tier.
    """
    occasion = (state.config.seed, state.tick, player.username, "raider")
    name = _RAIDERS[int(make_hex_id(*occasion)[:4], 16) % len(_RAIDERS)]
    pirate = make_pirate(name, tier, player.poi_id, *occasion)
    pirate.raider, pirate.leaves_tick = True, state.tick + _RAIDER_STAYS
    state.pirates[pirate.id] = pirate
    data = {**_NAME(pirate), "message": f"{name} drops out of the dark."}
    state.tell_here(player.poi_id, Event(data, "pirate_spawn", "combat"))
    return pirate
