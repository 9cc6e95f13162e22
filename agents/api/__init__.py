"""The REST routes of the fleet; mounted by ``zoea.api``."""

from __future__ import annotations

from . import (
    accounts,
    broadcasts,
    context,
    events,
    fleet,
    myses,
    prompts,
    providers,
    turns,
)

routers = [
    myses.router,
    turns.router,
    context.router,
    fleet.router,
    broadcasts.router,
    providers.router,
    prompts.router,
    events.router,
    accounts.router,
]
