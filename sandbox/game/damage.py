"""Shots: what they take from a ship, and how they are told in each era."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from sandbox.game.notifications import Event
from sandbox.game.state import State

DAMAGE_TYPE = "kinetic"


class Target(Protocol):
    """Whatever has a hull and a shield."""

    hull: int
    shield: int


@dataclass(frozen=True, slots=True)
class Hit:
    """What one shot took away."""

    shield: int
    hull: int
    destroyed: bool

    @property
    def total(self) -> int:
        return self.shield + self.hull


def shoot(target: Target, damage: int) -> Hit:
    """Take damage from the shield first, then from the hull."""
    shield = min(damage, target.shield)
    hull = min(damage - shield, target.hull)
    target.shield -= shield
    target.hull -= hull
    return Hit(shield, hull, target.hull == 0)


Who = tuple[str, str]
"""Somebody's id and name."""


def shot_event(state: State, attacker: Who, target: Who, hit: Hit) -> Event:
    """A shot as both sides hear of it: by name in era A, by id in era C."""
    data: dict[str, Any] = {"tick": state.tick}
    if state.config.era == "C":
        data |= {
            "attacker_id": attacker[0],
            "target_id": target[0],
            "total_damage": hit.total,
        }
    else:
        data |= {"attacker": attacker[1], "target": target[1], "damage": hit.total}
    data |= {
        "damage_type": DAMAGE_TYPE,
        "shield_hit": hit.shield,
        "hull_hit": hit.hull,
        "destroyed": hit.destroyed,
    }
    name = "battle_damage" if state.config.era == "C" else "combat_update"
    return Event(data, name, "combat")
