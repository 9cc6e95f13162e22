"""The REST routes of what is remembered; mounted by ``zoea.api``."""

from __future__ import annotations

from memory.api import log, policies, state, summaries

routers = [
    policies.assembly_router,
    log.memories_router,
    policies.policies_router,
    log.search_router,
    state.state_router,
    summaries.summaries_router,
    summaries.summary_router,
]
