"""What a turn asks the game by itself: notifications, and what became of lost actions.

Notifications are merged into the cached state, so the model need not ask what became of
its last action (`memory.snapshots.notifications`). They are fetched before the first
call of a turn, and after each action that the game answers at its tick. Of an action
that a dead worker left open, a read tells whether it happened.
"""

from __future__ import annotations

import json
import logging

from django.db import transaction

from agents.db import run_in_db
from agents.game.client import GameUnreachableError
from agents.game.sessions import get_pool
from agents.runtime.turn_rows import TurnHandle, lock_for_turn
from agents.tools.chain import Toolbox
from agents.tools.request import INTERRUPTED, Outcome, route_command
from agents.tools.unknown_outcomes import lose_events
from memory.context.tokens import estimate_tokens
from memory.game_calls import resolve_call_text
from memory.gamestate.effects import NEED_REST
from memory.gamestate.values import parse_text, repair_text, unwrap_content
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
    if username is None or not handle.fetches:
        return
    if handle.cut_off:
        # Its worker died, perhaps with events that the game gave it.
        await run_in_db(lose_events, handle.mysis_id, username)
    before = toolbox.card
    try:
        await drain_events(toolbox)
        # With its session a Mysis loses the events that waited in it.
        new = before is not None and toolbox.card != before
        lost = ASKED_AGAIN if new or handle.cut_off else toolbox.doubted
        for name in ASKED_AGAIN:
            if name in lost:
                await _ask_again(toolbox, name)
    except GameUnreachableError:
        # The turn's own calls find out, and say so.
        return


def passes_a_tick(name: str, arguments: str, result: Outcome) -> bool:
    """Whether the game answered an action at its tick, so that events of it wait.

    What is only queued (era A) has brought none yet.
    """
    action = resolve_call_text(name, arguments).name
    return action in NEED_REST and result.resolve_tick is None


async def fetch_new_events(handle: TurnHandle, toolbox: Toolbox) -> None:
    """Ask for notifications in mid-turn; a game that cannot answer now is no failure."""
    if toolbox.username is None or not handle.fetches:
        return
    try:
        await drain_events(toolbox)
    except GameUnreachableError:
        return


async def drain_events(toolbox: Toolbox) -> None:
    """Ask for notifications until none are left, unless the game wants fewer calls.

    Raises GameUnreachableError.
    """
    asked = _build_fetch(toolbox)
    if asked is None or get_pool().find_wait(toolbox.mysis_id, TOOL) > 0:
        return
    for _ in range(MOST_FETCHES):
        result = await toolbox.call(*asked)
        if result.is_error:
            logger.debug("No events of Mysis %s: %s", toolbox.mysis_id, result.text)
            return
        answer = unwrap_content(parse_text(result.text))
        left = answer.get("remaining") if isinstance(answer, dict) else None
        if not (isinstance(left, int) and left):
            return


async def _ask_again(toolbox: Toolbox, name: str) -> None:
    """Ask for a state anew, where the game has the command and wants no pause of it."""
    route = route_command(name, toolbox.tools)
    if route is not None and get_pool().find_wait(toolbox.mysis_id, name) <= 0:
        await toolbox.call(route.tool, json.dumps(dict(route.arguments)))


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


def _build_fetch(toolbox: Toolbox) -> tuple[str, str] | None:
    """The call that fetches events, all at once where the server lets us ask so.

    None where the game has no such tool.
    """
    route = route_command(TOOL, toolbox.tools)
    if route is None:
        return None
    known = toolbox.tools[route.tool].spec.parameters.get("properties") or {}
    limit = {"limit": LIMIT} if "limit" in known else {}
    return route.tool, json.dumps({**route.arguments, **limit})


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
