"""What a captain can do: every action of the game by its name."""

from __future__ import annotations

from sandbox.game.actions import (
    assignments,
    barter,
    building,
    combat,
    company,
    docking,
    droning,
    ending,
    fitting,
    flight,
    giving,
    hangar,
    insuring,
    mining,
    ordering,
    salvage,
    scanning,
    service,
    storing,
    surveying,
    trading,
    workshop,
    wrecking,
)
from sandbox.game.actions.action import Action

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
        ending.SELF_DESTRUCT,
        salvage.JETTISON,
        salvage.LOOT_WRECK,
        *storing.STORING,
        *assignments.ASSIGNMENTS,
        *barter.BARTER,
        *workshop.WORKSHOP,
        *ordering.ORDERING,
        *hangar.HANGAR,
        *fitting.FITTING,
        surveying.SURVEY,
        *insuring.INSURING,
        *wrecking.WRECKING,
        *company.COMPANY,
        *droning.DRONING,
        *building.BUILDING,
        giving.SEND_GIFT,
    )
}
