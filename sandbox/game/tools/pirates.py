"""What pirates do by themselves: warn, shoot, raid and come back."""

from __future__ import annotations

from sandbox.game.config import make_dice, make_hex_id, make_view
from sandbox.game.sessions import Event
from sandbox.game.state import State
from sandbox.game.tools.combat import DAMAGE_TYPE, kill, shoot
from sandbox.game.world.models import Player
from sandbox.game.world.npcs import TIERS, Pirate, make_pirate

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
