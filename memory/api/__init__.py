"""The REST routes of what is remembered; ``zoea.api`` mounts and names them."""

from __future__ import annotations

from memory.api import log, policies, state

routers = {
    "assembly": policies.assembly_router,
    "memories": log.memories_router,
    "policies": policies.policies_router,
    "search": log.search_router,
    "state": state.state_router,
    "summaries": state.summaries_router,
    "summary": state.summary_router,
}
