"""Events of the game, asked for by the program at the start of a turn.

What they tell is merged into the cached state before the first call, so that the
model need not ask what became of its last action. They stand in the state block, and
are kept; see ``memory.snapshots.notifications``.
"""

from __future__ import annotations

import json
import logging

from django.db import transaction
from django.db.models import Subquery
from django.db.models.functions import Coalesce

from agents.db import run_in_db
from agents.game.client import GameUnreachableError
from agents.models import Turn
from agents.runtime.turn_rows import INTERRUPTED, TurnHandle, current, going_on
from agents.tools.chain import Toolbox
from agents.tools.request import ToolResult
from agents.tools.unknown_outcomes import lose_events
from memory.context.tokens import estimate
from memory.gamestate.values import clean_text, parse_text
from memory.models import Memory
from memory.snapshots.reads import fetches_events

TOOL = "get_notifications"
#: The game keeps so many for a session.
LIMIT = 100
MOST_FETCHES = 4

logger = logging.getLogger(__name__)


async def fetch_events(begun: TurnHandle, toolbox: Toolbox) -> None:
    """Ask for what happened; a game that cannot answer now is no failure."""
    username = toolbox.username
    if username is None or TOOL not in toolbox.policies:
        return
    wanted, cut_off = await run_in_db(_situation, begun)
    if not wanted:
        return
    if cut_off:
        # Its worker died, perhaps with events that the game gave it.
        await run_in_db(lose_events, begun.mysis_id, username)
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


def _situation(begun: TurnHandle) -> tuple[bool, bool]:
    """Whether events are asked for, and whether the turn before was cut off in that."""
    mysis = going_on(begun)
    if mysis is None:
        return False, False
    wanted = fetches_events(mysis.policy.options if mysis.policy else {})
    return wanted, wanted and _was_cut_off(begun)


def _was_cut_off(begun: TurnHandle) -> bool:
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


# SECTION What became of actions that a dead worker left, read before the model goes on.


async def verify(begun: TurnHandle, toolbox: Toolbox) -> None:
    """Read what tells, and put it to the results; no answer now is no failure.

    Then the calls stay unknown, and the chain holds the same ones back.
    """
    for unknown in toolbox.unknown:
        if unknown.memory_id is None or unknown not in toolbox.unknown:
            continue
        try:
            words = await toolbox.look_into(unknown)
        except GameUnreachableError:
            return
        if words:
            await run_in_db(_tell, begun, unknown.memory_id, words)


@transaction.atomic
def _tell(begun: TurnHandle, memory_id: int, words: str) -> None:
    mysis = current(begun)
    row = Memory.objects.filter(pk=memory_id, mysis=mysis, pending=False).first()
    if row is None or row.content != INTERRUPTED:
        # It was told before, and the model has seen it.
        return
    row.content = clean_text(f"{row.content} {words}")
    row.tokens = estimate(row.content)
    row.save(update_fields=["content", "tokens"])
