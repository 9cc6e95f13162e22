"""The REST routes of the fleet; mounted by ``zoea.api``."""

from __future__ import annotations

from . import (
    accounts,
    broadcasts,
    budgets,
    commands,
    context,
    difference,
    events,
    fleet,
    messages,
    myses,
    prompts,
    providers,
    turns,
    usage,
)

routers = [
    myses.router,
    turns.router,
    context.router,
    difference.router,
    commands.router,
    fleet.router,
    broadcasts.router,
    providers.router,
    prompts.router,
    events.router,
    accounts.router,
    usage.router,
    budgets.router,
    messages.router,
]
