"""Raids on stations: now and then one is damaged, and after a while mended."""

from __future__ import annotations

from sandbox.game.dice import dice
from sandbox.game.holdings import BaseState
from sandbox.game.notifications import Event
from sandbox.game.places import Base
from sandbox.game.state import State

REPAIR_TICKS = 20
_DAMAGE = 40


def besiege(state: State) -> None:
    """Let stations with captains inside be raided, and mend the others (per tick)."""
    for base_id, now in state.bases.items():
        if now.damage and state.tick >= now.repaired_tick:
            now.damage = 0
            _tell(state, state.world.bases[base_id], "station_repaired")
    if not state.config.raid_chance:
        return
    docked = {player.docked_at for player in state.players.values()} - {None}
    for name in sorted(one for one in docked if one):
        rng = dice(state.config.seed, state.tick, name, "siege")
        if rng.random() < state.config.raid_chance / 10:
            raid(state, state.world.bases[name])


def raid(state: State, base: Base) -> None:
    """Damage a station; its crews need a while to mend it."""
    now = state.bases.setdefault(base.id, BaseState())
    now.damage, now.repaired_tick = _DAMAGE, state.tick + REPAIR_TICKS
    _tell(state, base, "base_raid_update")


def _tell(state: State, base: Base, kind: str) -> None:
    damage = state.bases[base.id].damage
    data = {"tick": state.tick, "base_id": base.id, "damage_pct": damage}
    state.tell_here(base.poi_id, Event(data, kind, "combat"))
