"""Repeats what may be repeated; a lost reply to an action is said, not guessed."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

from agents.game.errors import (
    GameCallError,
    GameUnreachableError,
    RateLimitedError,
    ReplyLostError,
)
from agents.tools.request import CallNext, Outcome, Request, refusal

logger = logging.getLogger(__name__)

PAUSES = (0.3, 1.2)
"""Seconds before the first and the second repetition."""

LONGEST_WAIT = 60.0
"""Seconds that a call waits where the game asks for it. Never less is waited than is
asked for: who calls too early too often is shut out."""

REPEATABLE = frozenset({"login", "logout"})
"""They write, yet a second time changes nothing more."""


async def retry(request: Request, call_next: CallNext) -> Outcome:
    """Call, and call again after a transport failure where that does no harm.

    Whatever was surely not executed is repeated; what may have been executed only
    if it is a read. Raises GameUnreachableError when the server stays away.
    """
    for pause in (*PAUSES, None):
        try:
            return await call_next(request)
        except ReplyLostError as error:
            failure: GameCallError = error
            if not may_repeat(request):
                logger.warning("Reply to %s lost: %s", request.name, error.detail)
                return _unknown(request)
        except GameCallError as error:
            failure = error
        wait = _wait(failure, pause)
        if wait is None:
            break
        await asyncio.sleep(wait)
    if isinstance(failure, RateLimitedError):
        return refusal("rate_limited", _later(failure))
    asked = failure.retry_after if isinstance(failure, GameUnreachableError) else None
    raise GameUnreachableError(failure.detail, asked) from failure


def may_repeat(request: Request) -> bool:
    """Whether a second execution does no harm."""
    tool = request.tool
    return request.name in REPEATABLE or (tool is not None and tool.spec.read_only)


def _wait(failure: GameCallError, pause: float | None) -> float | None:
    """Seconds until the next try; None where there is none in this call."""
    asked = 0.0
    if isinstance(failure, RateLimitedError | GameUnreachableError):
        asked = failure.retry_after or 0.0
    if pause is None or asked > LONGEST_WAIT:
        return None
    return asked or pause


def _later(failure: RateLimitedError) -> str:
    seconds = failure.retry_after
    when = f"in {seconds:.0f} seconds" if seconds else "a little later"
    return f"The game server takes no more calls now. Try again {when}."


def _unknown(request: Request) -> Outcome:
    if request.name == "register":
        remedy = "Call register again; if the name is taken by now, use another one."
    else:
        remedy = "It may have been executed: check get_status before you repeat it."
    words = f"The reply to {request.name} was lost. {remedy}"
    return replace(refusal("outcome_unknown", words), unknown=True)
