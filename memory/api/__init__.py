"""The REST routes of what is remembered; mounted by ``zoea.api``."""

from __future__ import annotations

from . import memories, policies, search, state

routers = [memories.router, policies.router, search.router, state.router]
