"""The REST routes of the fleet; ``zoea.api`` mounts them."""

from __future__ import annotations

from agents.api import fleet, llm, myses, previews, spending, turns

routers = [
    myses.myses_router,
    turns.turns_router,
    previews.context_router,
    previews.difference_router,
    myses.commands_router,
    fleet.fleet_router,
    fleet.broadcasts_router,
    llm.providers_router,
    llm.prompts_router,
    turns.events_router,
    llm.accounts_router,
    spending.usage_router,
    spending.budgets_router,
    myses.messages_router,
]
