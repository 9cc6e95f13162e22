"""Where a docked captain is, and what the base offers there."""

from __future__ import annotations

from sandbox.game.errors import GameError, not_docked_here
from sandbox.game.models import Player
from sandbox.game.places import Base
from sandbox.game.state import State


def base_of(state: State, player: Player) -> Base:
    """The base where a captain is docked. Raises GameError `not_docked`."""
    if not player.docked_at:
        raise not_docked_here()
    return state.world.bases[player.docked_at]


def serving_base(state: State, player: Player, service: str) -> Base:
    """The same, where it has a service. Raises GameError `no_<service>_service`."""
    base = base_of(state, player)
    if service not in base.services:
        raise GameError(f"no_{service}_service", f"This base has no {service}.")
    return base


def check_credits(player: Player, needed: int) -> None:
    """Raises GameError `insufficient_credits` where there are fewer."""
    if player.credits < needed:
        raise GameError(
            "insufficient_credits", f"Need {needed} credits. You have {player.credits}."
        )
