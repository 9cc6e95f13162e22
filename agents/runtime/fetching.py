"""Events of the game, asked for by the program at the start of a turn.

What they tell is merged into the cached state before the first call, so that the
model need not ask what became of its last action. They stand in the state block, and
are kept; see ``memory.digest``.
"""

from __future__ import annotations

import json
import logging

from django.db.models import Subquery
from django.db.models.functions import Coalesce

from agents.models import Turn
from agents.tools.chain import Toolbox
from agents.tools.crossing import cross
from agents.tools.doubts import lose_events
from agents.tools.types import GameUnreachableError, ToolResult
from memory.gamestate.parse import parse_text
from memory.reading import fetches_events

from .records import Begun, going_on

TOOL = "get_notifications"
#: The game keeps so many for a session.
LIMIT = 100
MOST_FETCHES = 4

logger = logging.getLogger(__name__)


async def fetch_events(begun: Begun, toolbox: Toolbox) -> None:
    """Ask for what happened; a game that cannot answer now is no failure."""
    username = toolbox.username
    if username is None or TOOL not in toolbox.policies:
        return
    wanted, cut_off = await cross(_situation, begun)
    if not wanted:
        return
    if cut_off:
        # Its worker died, perhaps with events that the game gave it.
        await cross(lose_events, begun.mysis_id, username)
    for _ in range(MOST_FETCHES):
        try:
            result = await toolbox.call(TOOL, _arguments(toolbox))
        except GameUnreachableError:
            # The turn's own calls find out, and say so.
            return
        if result.is_error:
            logger.debug("No events of Mysis %s: %s", begun.mysis_id, result.text)
        if result.is_error or not _left(result):
            return


def _arguments(toolbox: Toolbox) -> str:
    """All at once where the server lets us say so."""
    spec = next(spec for spec in toolbox.specs if spec.name == TOOL)
    known = spec.parameters.get("properties") or {}
    return json.dumps({"limit": LIMIT} if "limit" in known else {})


def _left(result: ToolResult) -> int:
    """How many events are still waiting; 0 where the answer does not tell."""
    told = parse_text(result.text)
    left = told.get("remaining") if isinstance(told, dict) else None
    return left if isinstance(left, int) else 0


def _situation(begun: Begun) -> tuple[bool, bool]:
    """Whether events are asked for, and whether the turn before was cut off in that."""
    mysis = going_on(begun)
    if mysis is None:
        return False, False
    wanted = fetches_events(mysis.policy.options if mysis.policy else {})
    return wanted, wanted and _was_cut_off(begun)


def _was_cut_off(begun: Begun) -> bool:
    """Whether a turn ended in the middle of asking, and nobody has asked since.

    One that its worker's death or a stop ended before its first call, with only such
    turns after it that made none either.
    """
    before = Turn.objects.filter(mysis=begun.mysis_id, number__lt=begun.number)
    calling = before.filter(iterations__gt=0).order_by("-number").values("number")
    return before.filter(
        number__gt=Coalesce(Subquery(calling[:1]), 0),
        outcome__in=(Turn.Outcome.INTERRUPTED, Turn.Outcome.STOPPED),
        iterations=0,
        error="",
    ).exists()
