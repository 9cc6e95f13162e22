"""What a captain can do: every action of the game by its name."""

from __future__ import annotations

from agents.game.sandbox.actions import (
    combat,
    docking,
    flight,
    mining,
    scanning,
    service,
    trading,
)
from agents.game.sandbox.actions.action import Action

ACTIONS: dict[str, Action] = {
    action.name: action
    for action in (
        flight.TRAVEL,
        flight.JUMP,
        docking.DOCK,
        docking.UNDOCK,
        mining.MINE,
        trading.BUY,
        trading.SELL,
        service.REFUEL,
        service.REPAIR,
        scanning.SCAN,
        combat.ATTACK,
    )
}
