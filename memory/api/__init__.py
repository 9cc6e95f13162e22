"""The REST routes of what is remembered; mounted by ``zoea.api``."""

from __future__ import annotations

from . import assembly, memories, policies, search, state, summaries, summary

routers = [
    assembly.router,
    memories.router,
    policies.router,
    search.router,
    state.router,
    summaries.router,
    summary.router,
]
