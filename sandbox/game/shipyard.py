"""New ships."""

from __future__ import annotations

from sandbox.game.catalogue import ShipClass
from sandbox.game.models import Module, Ship
from sandbox.game.stamps import rfc3339
from sandbox.game.state import State


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
