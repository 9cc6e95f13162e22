"""What every query receives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sandbox.game.actions.docked import base_of
from sandbox.game.models import Player
from sandbox.game.places import Base
from sandbox.game.sessions import Session
from sandbox.game.state import State

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """Who asks, in which session, with which checked arguments."""

    state: State
    player: Player
    session: Session
    arguments: Json

    @property
    def base(self) -> Base:
        """Where the asker is docked. Raises GameError `not_docked`."""
        return base_of(self.state, self.player)
