"""What the runtime sees of tools: their descriptions, and what a call brought."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agents.game.errors import GameUnreachableError

__all__ = ["GameUnreachableError", "ToolResult", "ToolSpec"]


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One tool as a model may see it.

    ``parameters`` is a JSON schema without what the account step fills in
    (session id, password). ``policy`` is one of ``memory.context.types.Policy``.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    policy: str
    read_only: bool


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a call brought, without any secret.

    Errors are results too: ``text`` then says what to do. ``tick`` is the game
    tick named in the result. ``resolve_tick`` is the tick at which an action that
    was only queued takes effect (era A), None for what is done already.
    """

    text: str
    is_error: bool
    tick: int | None = None
    resolve_tick: int | None = None
