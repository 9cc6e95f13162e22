"""What a turn asks the game before its first call: notifications, and lost actions.

Notifications are merged into the cached state, so the model need not ask what became of
its last action (`memory.snapshots.notifications`). Of an action that a dead worker left
open, a read tells whether it happened.
"""

from __future__ import annotations

import json
import logging

from django.db import transaction

from agents.db import run_in_db
from agents.game.client import GameUnreachableError
from agents.runtime.turn_rows import TurnHandle, lock_for_turn
from agents.tools.chain import Toolbox
from agents.tools.request import INTERRUPTED
from agents.tools.unknown_outcomes import lose_events
from memory.context.tokens import estimate_tokens
from memory.gamestate.values import parse_text, repair_text
from memory.models import Memory

TOOL = "get_notifications"

# The game keeps so many for a session.
LIMIT = 100

MOST_FETCHES = 4
# Which answers are asked for again where events were lost: who the Mysis is, and where.
ASKED_AGAIN = ("get_status", "get_system")
logger = logging.getLogger(__name__)


async def fetch_events(handle: TurnHandle, toolbox: Toolbox) -> None:
    """Ask for notifications, and for the state itself where some were lost.

    A game that cannot answer now is no failure.
    """
    username = toolbox.username
    if username is None or TOOL not in toolbox.tools or not handle.fetches:
        return
    if handle.cut_off:
        # Its worker died, perhaps with events that the game gave it.
        await run_in_db(lose_events, handle.mysis_id, username)
    before = toolbox.card
    try:
        await _drain_events(handle, toolbox)
        # With its session a Mysis loses the events that waited in it.
        new = before is not None and toolbox.card != before
        lost = ASKED_AGAIN if new or handle.cut_off else toolbox.doubted
        for name in ASKED_AGAIN:
            if name in lost and name in toolbox.tools:
                await toolbox.call(name, "{}")
    except GameUnreachableError:
        # The turn's own calls find out, and say so.
        return


async def _drain_events(handle: TurnHandle, toolbox: Toolbox) -> None:
    for _ in range(MOST_FETCHES):
        result = await toolbox.call(TOOL, _arguments(toolbox))
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


@transaction.atomic
def _add_finding(handle: TurnHandle, memory_id: int, words: str) -> None:
    lock_for_turn(handle)
    own = Memory.objects.filter(mysis=handle.mysis_id, pending=False)
    row = own.filter(pk=memory_id).first()
    if row is None or row.content != INTERRUPTED:
        # It was added before, and the model has seen it.
        return
    row.content = repair_text(f"{row.content} {words}")
    row.tokens = estimate_tokens(row.content)
    row.save(update_fields=["content", "tokens"])
