"""What a turn asks the game before its first call: notifications, and lost actions.

Notifications are merged into the cached state, so the model need not ask what became of
its last action (`memory.snapshots.notifications`). Of an action that a dead worker left
open, a read tells whether it happened.
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
from agents.runtime.turn_rows import (
    TurnHandle,
    TurnSuperseded,
    load_inputs,
    lock_for_turn,
)
from agents.tools.chain import Toolbox
from agents.tools.request import INTERRUPTED
from agents.tools.unknown_outcomes import lose_events
from memory.context.tokens import estimate_tokens
from memory.gamestate.values import parse_text, repair_text
from memory.models import Memory
from memory.snapshots.reads import fetches_events

TOOL = "get_notifications"

# The game keeps so many for a session.
LIMIT = 100

MOST_FETCHES = 4
logger = logging.getLogger(__name__)


async def fetch_events(handle: TurnHandle, toolbox: Toolbox) -> None:
    """Ask for notifications; a game that cannot answer now is no failure."""
    username = toolbox.username
    if username is None or TOOL not in toolbox.policies:
        return
    wanted, cut_off = await run_in_db(_situation, handle)
    if not wanted:
        return
    if cut_off:
        # Its worker died, perhaps with events that the game gave it.
        await run_in_db(lose_events, handle.mysis_id, username)
    for _ in range(MOST_FETCHES):
        try:
            result = await toolbox.call(TOOL, _arguments(toolbox))
        except GameUnreachableError:
            # The turn's own calls find out, and say so.
            return
        if result.is_error:
            logger.debug("No events of Mysis %s: %s", handle.mysis_id, result.text)
            return
        answer = parse_text(result.text)
        left = answer.get("remaining") if isinstance(answer, dict) else None
        if not (isinstance(left, int) and left):
            return


async def verify_unknown(handle: TurnHandle, toolbox: Toolbox) -> None:
    """Read what became of unknown outcomes, and add it to their results.

    Where the game gives no answer they stay unknown, and the chain holds the same
    calls back.
    """
    for unknown in toolbox.unknown:
        if unknown.memory is None or unknown not in toolbox.unknown:
            continue
        try:
            words = await toolbox.look_into(unknown)
        except GameUnreachableError:
            return
        if words:
            await run_in_db(_add_finding, handle, unknown.memory, words)


def _arguments(toolbox: Toolbox) -> str:
    """All at once, where the server lets us ask so."""
    spec = next(spec for spec in toolbox.specs if spec.name == TOOL)
    known = spec.parameters.get("properties") or {}
    return json.dumps({"limit": LIMIT} if "limit" in known else {})


def _situation(handle: TurnHandle) -> tuple[bool, bool]:
    """Whether events are asked for, and whether the turn before was cut off in that."""
    try:
        mysis, _ = load_inputs(handle)
    except TurnSuperseded:
        return False, False
    wanted = fetches_events(mysis.policy.options if mysis.policy else {})
    return wanted, wanted and _was_cut_off(handle)


def _was_cut_off(handle: TurnHandle) -> bool:
    """Whether a turn ended in the middle of asking, and nobody has asked since.

    One that a worker's death or a stop ended before its first call, with only such
    turns after it that made none either.
    """
    before = Turn.objects.filter(mysis=handle.mysis_id, number__lt=handle.number)
    calling = before.filter(iterations__gt=0).order_by("-number").values("number")
    return before.filter(
        number__gt=Coalesce(Subquery(calling[:1]), 0),
        outcome__in=(Turn.Outcome.INTERRUPTED, Turn.Outcome.STOPPED),
        iterations=0,
        error="",
    ).exists()


@transaction.atomic
def _add_finding(handle: TurnHandle, memory_id: int, words: str) -> None:
    mysis = lock_for_turn(handle)
    row = Memory.objects.filter(pk=memory_id, mysis=mysis, pending=False).first()
    if row is None or row.content != INTERRUPTED:
        # It was added before, and the model has seen it.
        return
    row.content = repair_text(f"{row.content} {words}")
    row.tokens = estimate_tokens(row.content)
    row.save(update_fields=["content", "tokens"])
