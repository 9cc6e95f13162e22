"""The end of the chain: the call itself, over the Mysis's MCP session."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from agents.game import wire
from agents.game.errors import (
    GameCallError,
    GameUnreachableError,
    ProtocolRefusalError,
    ReplyLostError,
    SessionLostError,
)
from agents.game.sessions import pool
from agents.tools.request import Outcome, Request
from agents.tools.retry import may_repeat
from memory.gamestate.parse import clean_text


async def send(request: Request) -> Outcome:
    """Call the server; a lost MCP session is opened anew and the call sent once more.

    Nothing was executed in the lost one, so that is right for actions too. Raises
    GameCallError, never SessionLostError.
    """
    try:
        return await _send(request)
    except SessionLostError:
        pass
    try:
        return await _send(request)
    except SessionLostError as error:
        raise GameUnreachableError(
            "The game server loses every session at once: try again later."
        ) from error


async def _send(request: Request) -> Outcome:
    session = await pool().session(request.seat.mysis_id)
    try:
        answer = await session.call(request.name, request.arguments)
    except ProtocolRefusalError as error:
        if error.code == wire.BROKEN and not may_repeat(request):
            raise ReplyLostError("The game server failed in the call.") from error
        return Outcome((f"Error: {error.detail}",), is_error=True)
    blocks = tuple(clean_text(block) for block in answer.blocks)
    outcome = Outcome(blocks, answer.is_error)
    read = outcome.read()
    if read.error is not None and read.error.code == "unknown_command":
        # The server's list changes without notice: have the next turn's be right.
        with suppress(GameCallError):
            await session.refresh()
    return replace(outcome, is_error=read.is_error, tick=read.tick)
