"""Send a call, repeat what may be repeated, and look after actions whose reply was lost.

The steps ``verify`` and ``retry``, and ``send``, the end of the chain. A lost reply to an
action is reported, never guessed: a read shows whether it happened before the same call is
sent again. It goes through the rest of the chain, so the cached state is refreshed too.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from django.utils import timezone

from agents.db import run_in_db
from agents.game import http
from agents.game.client import (
    GameCallError,
    GameUnreachableError,
    ProtocolRefusalError,
    RateLimitedError,
    ReplyLostError,
    ReplyTooLongError,
    SecretMissingError,
    SessionLostError,
)
from agents.game.sessions import get_pool
from agents.models import UnknownOutcome
from agents.tools import unknown_outcomes
from agents.tools.account import AUTH
from agents.tools.request import CallNext, Outcome, Request, make_refusal
from agents.tools.snapshot import changes_snapshots
from agents.tools.unknown_outcomes import Read, find_read, normalise_arguments
from memory.gamestate.extract import GameError
from memory.gamestate.values import repair_text
from memory.json_bounds import TooDeepJsonError, TooMuchJsonError
from memory.snapshots.reads import read_tick

logger = logging.getLogger(__name__)

# The blocks of a long answer that are each parsed.
MOST_BLOCKS = 8

# Seconds before the first and the second repetition.
PAUSES = (0.3, 1.2)

# Seconds that a call waits where the game asks for it. Never less is waited than is
# asked for: who calls too early too often is shut out.
LONGEST_WAIT = 60.0

# A wait that an answer asks for is believed up to this.
LONGEST_NOTED = 600.0
# All actions wait together where the game says so: it counts them by account. A wait
# under another name (a cooldown) is that of the one command.
ACTIONS = "actions"
_HOLDS_ACTIONS = frozenset(
    {"rate_limited", "action_queued", "action_pending", "queue_full"}
)
# They change something, yet the game counts them as queries (API.md 1.8).
_OWN_PACE = frozenset({"chat", "captains_log_add"})

# They write, yet a second time changes nothing more.
REPEATABLE = frozenset({"login", "logout"})


async def verify(request: Request, call_next: CallNext) -> Outcome:
    """Hold an action back while the outcome of the same one is unknown, and read first."""
    if request.caller.card is None or request.command.name in AUTH:
        return await call_next(request)
    if not changes_snapshots(request):
        outcome = await call_next(request)
        if not outcome.is_error:
            await _settle(request, request.command.name, outcome)
        return outcome
    same = _same_unknown(request)
    if same is not None:
        return await _read_instead(same, request, call_next)
    outcome = await call_next(request)
    return await _add_read(request, outcome, call_next) if outcome.unknown else outcome


def _same_unknown(request: Request) -> UnknownOutcome | None:
    command = request.command
    given = normalise_arguments(command.arguments)
    for one in request.caller.unknown:
        if one.tool == command.name and normalise_arguments(one.args) == given:
            return one
    return None


async def _add_read(request: Request, outcome: Outcome, call_next: CallNext) -> Outcome:
    caller = request.caller
    username = caller.card.username if caller.card else ""
    caller.unknown = await run_in_db(
        unknown_outcomes.find_unknown, caller.mysis_id, username
    )
    lost = _same_unknown(request)
    read = find_read(lost, caller.tools) if lost else None
    if lost is None or read is None:
        return outcome
    words = await _read(read, request, call_next)
    if lost in caller.unknown:
        words = f"{words} What it did may show only {_when(lost)}."
    *others, last = outcome.blocks
    blocks = (*others, f"{last} {words}".rstrip())
    return replace(outcome, blocks=blocks, resolve_tick=lost.tick)


async def _read_instead(
    one: UnknownOutcome, request: Request, call_next: CallNext
) -> Outcome:
    """Read in place of the repetition, and show that; the model decides then."""
    read = find_read(one, request.caller.tools)
    if read is None:
        # No tool of this server can tell: the call is all there is.
        await run_in_db(one.delete)
        caller = request.caller
        caller.unknown = tuple(each for each in caller.unknown if each is not one)
        return await call_next(request)
    found = await _read(read, request, call_next)
    if not found or one in request.caller.unknown:
        found = f"{found} Call {read.name} {_when(one)} and compare.".strip()
    return make_refusal(
        "not_verified",
        f"Not executed: a call of {one.tool} with the same arguments had an unknown "
        f"outcome. {found} Call it again only if that shows that it did not happen.",
    )


def _when(one: UnknownOutcome) -> str:
    return "two ticks later" if one.tick is None else f"from tick {one.tick} on"


async def _read(read: Read, request: Request, call_next: CallNext) -> str:
    """What the game says now, in a sentence; "" where it says nothing."""
    raw = json.dumps(dict(read.arguments))
    asked = replace(request, name=read.tool, raw=raw, arguments=read.arguments)
    try:
        outcome = await call_next(asked)
    except GameCallError:
        return ""
    if outcome.is_error:
        return ""
    await _settle(request, read.name, outcome)
    return read.describe_answer(outcome.text, outcome.tick)


async def _settle(request: Request, name: str, outcome: Outcome) -> None:
    """Take as known what this answer of ``name`` shows, once it is stored."""
    caller = request.caller
    if not caller.unknown or caller.card is None:
        return
    tick = outcome.tick
    if tick is None:
        tick = await run_in_db(read_tick, caller.card.username)
    now = timezone.now()
    shown = [
        one
        for one in caller.unknown
        if (read := find_read(one, caller.tools)) is not None
        and read.name == name
        and unknown_outcomes.shows_outcome(one, tick, now)
    ]
    request.settled.extend(one.pk for one in shown)
    caller.unknown = tuple(one for one in caller.unknown if one not in shown)


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
                logger.warning(
                    "Reply to %s lost: %s", request.command.name, error.detail
                )
                return _unknown_outcome(request)
            if isinstance(error, ReplyTooLongError):
                words = f"{error.detail} Ask for less of it."
                return make_refusal("answer_too_long", words)
        except SecretMissingError:
            raise
        except GameCallError as error:
            failure = error
        asked = failure.retry_after or 0.0
        if pause is None or asked > LONGEST_WAIT:
            break
        await asyncio.sleep(asked or pause)
    if isinstance(failure, RateLimitedError):
        seconds = failure.retry_after
        when = f"in {seconds:.0f} seconds" if seconds else "a little later"
        words = f"The game server takes no more calls now. Try again {when}."
        return make_refusal("rate_limited", words)
    raise GameUnreachableError(failure.detail, failure.retry_after) from failure


def may_repeat(request: Request) -> bool:
    """Whether a second execution does no harm."""
    return request.command.name in REPEATABLE or request.reads_only


def _unknown_outcome(request: Request) -> Outcome:
    name = request.command.name
    if name == "register":
        remedy = "Call register again; if the name is taken by now, use another one."
    else:
        remedy = "It may have been executed: check get_status before you repeat it."
    words = f"The reply to {name} was lost. {remedy}"
    return replace(make_refusal("outcome_unknown", words), unknown=True)


async def send(request: Request) -> Outcome:
    """Call the server when it takes the call; a lost MCP session is opened anew.

    Nothing was executed in the lost one, so the call is sent once more. Raises
    GameCallError, never SessionLostError.
    """
    refusal = await _await_pace(request)
    if refusal is not None:
        return refusal
    with suppress(SessionLostError):
        return await _send(request)
    try:
        return await _send(request)
    except SessionLostError as error:
        raise GameUnreachableError(
            "The game server loses every session at once: try again later."
        ) from error


def _is_paced_action(request: Request) -> bool:
    """Whether the game counts a call with all other actions of the account."""
    return request.kind == "mutation" and request.command.name not in _OWN_PACE


async def _await_pace(request: Request) -> Outcome | None:
    """Wait as long as the game asked for; a refusal where that is too long."""
    name, mysis_id = request.command.name, request.caller.mysis_id
    if name in REPEATABLE:
        # Whoever waits for an action must still be able to log in.
        return None
    held = [name, ACTIONS] if _is_paced_action(request) else [name]
    wait = max(get_pool().find_wait(mysis_id, each) for each in held)
    if wait > LONGEST_WAIT:
        words = f"The game takes this again later. Try again in {wait:.0f} seconds."
        return make_refusal("rate_limited", words)
    if wait > 0:
        await wait_for_pace(wait)
    return None


async def wait_for_pace(seconds: float) -> None:
    """Let the time pass that the game asked for."""
    await asyncio.sleep(seconds)


def _note_pace(request: Request, error: GameError | None) -> None:
    """Note a wait that an answer asks for (``wait_seconds``, ``retry_after``)."""
    if error is None or not error.wait_seconds:
        return
    together = error.code in _HOLDS_ACTIONS and _is_paced_action(request)
    held = ACTIONS if together else request.command.name
    wait = min(error.wait_seconds, LONGEST_NOTED)
    get_pool().pace(request.caller.mysis_id, held, wait)


def _cut_unparsed(outcome: Outcome) -> Outcome:
    """Of a long outcome that holds too much to be parsed, what the log keeps of it.

    Another one is read whole before it is cut: a map shows all its systems.
    """
    kept = outcome.kept_text
    if kept == outcome.text or _may_be_parsed(outcome.blocks):
        return outcome
    return replace(outcome, blocks=(kept,))


def _may_be_parsed(blocks: Sequence[str]) -> bool:
    try:
        for block in blocks:
            http.BOUNDS.check(block.encode())
    except (TooMuchJsonError, TooDeepJsonError):
        return False
    return len(blocks) <= MOST_BLOCKS


async def _send(request: Request) -> Outcome:
    session = await get_pool().session(request.caller.mysis_id)
    try:
        answer = await session.call(
            request.name, request.arguments, reads_only=request.reads_only
        )
    except ProtocolRefusalError as error:
        if error.code == http.BROKEN and not may_repeat(request):
            raise ReplyLostError("The game server failed in the call.") from error
        return Outcome((f"Error: {error.detail}",), is_error=True)
    blocks = tuple(repair_text(block) for block in answer.blocks)
    outcome = _cut_unparsed(
        Outcome(blocks, answer.is_error, structured=answer.structured)
    )
    read = outcome.read()
    _note_pace(request, read.error)
    if read.error is not None and read.error.code == "unknown_command":
        # The server's list changes without notice: have the next turn's be right.
        with suppress(GameCallError):
            await session.refresh()
    return replace(outcome, is_error=read.is_error, tick=read.tick)
