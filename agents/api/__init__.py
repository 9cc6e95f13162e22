"""The REST routes of the fleet; ``zoea.api`` mounts them and names their operations."""

from __future__ import annotations

from agents.api import (
    alerts,
    audit,
    digest,
    fleet,
    lanes,
    llm,
    myses,
    notes,
    orders,
    pins,
    previews,
    searches,
    spending,
    tool_policies,
    turns,
    yields,
)

routers = {
    "myses": myses.myses_router,
    "turns": turns.turns_router,
    "context": previews.context_router,
    "difference": previews.difference_router,
    "commands": myses.commands_router,
    "fleet": fleet.fleet_router,
    "broadcasts": fleet.broadcasts_router,
    "digest": digest.digest_router,
    "lanes": lanes.lanes_router,
    "search": searches.records_router,
    "yield": yields.yield_router,
    "providers": llm.providers_router,
    "prompts": llm.prompts_router,
    "events": turns.events_router,
    "accounts": llm.accounts_router,
    "usage": spending.usage_router,
    "alerts": alerts.alerts_router,
    "audit": audit.audit_router,
    "budgets": spending.budgets_router,
    "messages": myses.messages_router,
    "notes": notes.notes_router,
    "orders": orders.orders_router,
    "pins": pins.pins_router,
    "tool_policies": tool_policies.tool_policies_router,
}
