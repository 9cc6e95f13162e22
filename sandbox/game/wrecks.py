"""What is left floating: lost ships and thrown away cargo, for ten minutes or so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandbox.game.models import Player, Wreck
from sandbox.game.stamps import rfc3339
from sandbox.game.state import State

LASTS_TICKS = 60
_NS = 1_000_000_000


def leave_wreck(
    state: State,
    *,
    poi_id: str,
    victim: tuple[str, str],
    ship_class: str,
    cargo: Mapping[str, int],
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


def wrecks_at(state: State, poi_id: str) -> list[Wreck]:
    """The wrecks of a place, the oldest first."""
    return [wreck for wreck in state.wrecks.values() if wreck.poi_id == poi_id]


def pull(state: State, player: Player) -> None:
    """Bring a wreck that a ship has in tow to where the ship is."""
    wreck = state.wrecks.get(player.towing)
    if wreck is None:
        player.towing = ""
        return
    wreck.poi_id, wreck.system_id = player.poi_id, player.system_id


def clear_wrecks(state: State) -> None:
    """Take away what has floated long enough (once per tick)."""
    gone = [one.id for one in state.wrecks.values() if one.expire_tick <= state.tick]
    for name in gone:
        del state.wrecks[name]
    for player in state.players.values():
        if player.towing in gone:
            player.towing = ""


def wreck_view(wreck: Wreck, tick_seconds: float) -> dict[str, Any]:
    lasts_ns = int(LASTS_TICKS * tick_seconds * _NS)
    return {
        "id": wreck.id,
        "type": wreck.type,
        "poi_id": wreck.poi_id,
        "system_id": wreck.system_id,
        "victim_id": wreck.victim_id,
        "victim_name": wreck.victim_name,
        "ship_class": wreck.ship_class,
        "cargo": [
            {"item_id": item_id, "quantity": count}
            for item_id, count in wreck.cargo.items()
        ],
        "modules": [],
        "salvage_value": 0,
        "created_at": rfc3339(wreck.created_ns),
        "expires_at": rfc3339(wreck.created_ns + lasts_ns),
        "expire_tick": wreck.expire_tick,
    }
