"""What happens around every tool call, one behaviour a step, the outermost first."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agents.db import run_in_db
from agents.game.accounts import ActiveAccount
from agents.game.client import GameUnreachableError
from agents.game.sessions import pool
from agents.tools.account import account
from agents.tools.catalogue import game_tools
from agents.tools.guard import ArgumentsError, check_arguments, guard, read_arguments
from agents.tools.own_tools import local, offered
from agents.tools.record import record, redact
from agents.tools.request import (
    CallNext,
    Outcome,
    Request,
    Step,
    Tool,
    ToolResult,
    ToolSession,
    ToolSpec,
    Unknown,
)
from agents.tools.snapshot import snapshot
from agents.tools.transport import retry, send, verify
from agents.tools.unknown_outcomes import seated, telling

__all__ = ["STEPS", "GameUnreachableError", "Toolbox", "compose", "open_toolbox"]

STEPS: Sequence[Step] = (
    record,
    redact,
    guard,
    local,
    verify,
    retry,
    account,
    snapshot,
)
"""The order matters: secrets are taken out before anything is recorded, arguments
are checked before anything is sent, and what is sent again passes the account and
snapshot steps again."""


class Toolbox:
    """The tools of one Mysis for one turn."""

    def __init__(self, seat: ToolSession) -> None:
        self._seat = seat
        self._call = compose(STEPS, send)
        self.specs: tuple[ToolSpec, ...]
        self.specs = tuple(tool.spec for tool in seat.tools.values())
        self.policies: Mapping[str, str]
        self.policies = {spec.name: spec.policy for spec in self.specs}

    @property
    def username(self) -> str | None:
        """The game account that the Mysis plays as now."""
        return self._seat.card.username if self._seat.card else None

    def check(self, name: str, arguments: str) -> dict[str, Any]:
        """The arguments of a call of the game; raises ArgumentsError.

        Also for a tool that the game does not have, so for our own.
        """
        tool = self._seat.tools.get(name)
        if tool is None or tool.local:
            raise ArgumentsError(f"The game has no tool {name[:100]!r}.")
        checked = read_arguments(arguments, tool)
        check_arguments(checked, tool)
        return checked

    @property
    def unknown(self) -> tuple[Unknown, ...]:
        """The actions of which no read has told yet whether they happened."""
        return self._seat.unknown

    async def look_into(self, unknown: Unknown) -> str:
        """What the game says now of such an action; empty where it says nothing.

        Raises GameUnreachableError.
        """
        read = telling(unknown, self._seat.tools)
        if read is None:
            return ""
        result = await self.call(read.name, json.dumps(dict(read.arguments)))
        return "" if result.is_error else read.told(result.text, result.tick)

    async def call(self, name: str, arguments: str) -> ToolResult:
        """Call a tool with a model's JSON text.

        Errors of the game and of the arguments are results. Raises
        GameUnreachableError when the game server cannot be reached.
        """
        outcome = await self._call(Request(self._seat, name, arguments))
        return ToolResult(
            text=outcome.text,
            is_error=outcome.is_error,
            tick=outcome.tick,
            resolve_tick=outcome.resolve_tick,
        )


def compose(steps: Sequence[Step], last: CallNext) -> CallNext:
    """Put the steps around ``last``, the first one outermost."""
    call = last
    for step in reversed(steps):
        call = _around(step, call)
    return call


def _around(step: Step, call_next: CallNext) -> CallNext:
    async def call(request: Request) -> Outcome:
        return await step(request, call_next)

    return call


async def open_toolbox(mysis_id: int, *, by: str = "") -> Toolbox:
    """The tools that a Mysis has now: the game's and ours.

    ``by`` names the person who calls them by hand. Raises GameUnreachableError when
    the game server cannot be reached.
    """
    session = await pool().session(mysis_id)
    card, unknown, ours = await run_in_db(_known, mysis_id)
    tools = await game_tools(session, card)
    seat = ToolSession(mysis_id, {**tools, **ours}, card, by=by, unknown=unknown)
    if card is not None and card.session:
        seat.secrets.add(card.session)
    return Toolbox(seat)


def _known(
    mysis_id: int,
) -> tuple[ActiveAccount | None, tuple[Unknown, ...], Mapping[str, Tool]]:
    """Whom a Mysis plays as, what is unknown of that, and which of our tools it has."""
    card, unknown = seated(mysis_id)
    return card, unknown, offered(mysis_id)
