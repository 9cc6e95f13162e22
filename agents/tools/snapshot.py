"""Feeds the game-state cache: stores what a read shows, marks what an action changes.

The rules are in ``memory.gamestate``; logins and logouts are the account step's.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

from django.db import transaction
from django.utils import timezone

from agents import events
from agents.db import run_in_db
from agents.game.client import GameUnreachableError, RateLimitedError, SessionLostError
from agents.models import Mysis
from agents.tools import unknown_outcomes
from agents.tools.account import AUTH
from agents.tools.request import FILLED_IN, CallNext, Outcome, Request
from memory.context.tool_calls import policy_by_name
from memory.gamestate import invalidation
from memory.gamestate.confidence import Confidence
from memory.gamestate.extract import Result, belongs_to
from memory.gamestate.notices import is_incomplete
from memory.gamestate.values import parse_text
from memory.redaction import clean_text, clean_value
from memory.snapshots import notifications, reads, writes

NOT_EXECUTED = (GameUnreachableError, SessionLostError, RateLimitedError)
"""Failures of a call after which the game is as it was."""

T = TypeVar("T")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Answer:
    """One answer about one account, and the call that it answers."""

    request: Request
    outcome: Outcome
    username: str
    asked_at: datetime

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments without what the account step filled in."""
        given = self.request.arguments
        return {key: value for key, value in given.items() if key not in FILLED_IN}

    def read(self) -> _Seen:
        """The answer with what it says."""
        return _Seen(
            self.request,
            self.outcome,
            self.username,
            self.asked_at,
            self.outcome.read(),
        )


@dataclass(frozen=True, slots=True)
class _Seen(_Answer):
    """An answer that was read."""

    result: Result


async def snapshot(request: Request, call_next: CallNext) -> Outcome:
    """Call; then note the tick, and capture, invalidate or merge, in one transaction.

    An action whose answer is lost, or not waited for, may have happened: what it
    would have changed is in doubt. So is what events would have told that the game
    gave away with an answer that never arrived, or that could not be stored.
    """
    card, asked_at = request.seat.card, timezone.now()
    try:
        outcome = await call_next(request)
    except NOT_EXECUTED:
        raise
    except BaseException:
        if card is not None:
            await _finish(run_in_db(_lost, request, card.username))
        raise
    if card is None or request.name in AUTH:
        return outcome
    answer = _Answer(request, outcome, card.username, asked_at)
    return replace(outcome, resolve_tick=await _finish(_keep(answer)))


async def _keep(answer: _Answer) -> int | None:
    """Store an answer; one that cannot be stored is as good as lost, and no failure."""
    try:
        return await run_in_db(_remember, answer)
    except Exception:
        name = answer.request.name
        logger.exception(
            "The answer to %s was not stored: its state is in doubt.", name
        )
        await run_in_db(_lost, answer.request, answer.username)
        return None


async def _finish(work: Coroutine[Any, Any, T]) -> T:
    """Let work end that must not be lost; whoever cancels waits for it."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


@transaction.atomic
def _remember(answer: _Answer) -> int | None:
    """Store what the answer tells; the tick at which a queued action takes effect."""
    seen = answer.read()
    if acts(seen.request):
        return _mutated(seen)
    if seen.request.policy == "snapshot" and not seen.result.is_error:
        _captured(seen)
    elif seen.request.policy == "drain":
        _told(seen)
    elif belongs_to(seen.result, seen.username):
        writes.note_tick(username=seen.username, result=seen.result)
    return None


def acts(request: Request) -> bool:
    """Whether a tool changes something that snapshots show.

    Some do though they take no turn, and servers that mark no tool as reading call
    them no mutation (captains_log_add, chat: API.md 1.8).
    """
    told = request.policy == "mutation"
    return invalidation.is_mutation(request.name, told)


def _captured(seen: _Seen) -> None:
    """Store an answer; say so, and what of it an action has made untrue already."""
    call = seen.username, seen.request.name, seen.arguments
    doubted = writes.doubt_of(*call)
    row = writes.capture(
        username=seen.username,
        tool=seen.request.name,
        args=seen.arguments,
        text=_text(seen),
        result=seen.result,
        asked_at=seen.asked_at,
    )
    if row is None:
        return
    events.append(
        events.Kind.SNAPSHOT_UPDATED,
        mysis_id=seen.request.seat.mysis_id,
        data={
            "account": seen.username,
            "tool": seen.request.name,
            "args": seen.arguments,
            "tick": row.game_tick,
        },
    )
    reason, fields, tick = now = writes.doubt_of(*call)
    if reason and now != doubted:
        untrue = writes.Touched(call[1], call[2], fields, reason, tick)
        unknown_outcomes.tell(seen.request.seat.mysis_id, seen.username, [untrue])


def _told(seen: _Seen) -> None:
    """Merge what get_notifications told; say which snapshots that changed, and how."""
    if not seen.result.is_error and is_incomplete(seen.result.content):
        unknown_outcomes.lose_events(seen.request.seat.mysis_id, seen.username)
    lines: list[tuple[events.Kind, int | None, dict[str, Any]]] = []
    mysis_id = seen.request.seat.mysis_id
    # Redaction stands outside of this step, and the events are kept and shown.
    told = clean_value(seen.result.content, seen.request.seat.secrets)
    result = replace(seen.result, content=told)
    merged = notifications.merge(
        username=seen.username, result=result, asked_at=seen.asked_at
    )
    for one in merged:
        line = {"account": seen.username, "tool": one.tool, "args": dict(one.args)}
        if one.merged:
            written = {"fields": list(one.merged), "reason": seen.request.name}
            lines.append(
                (
                    events.Kind.SNAPSHOT_UPDATED,
                    mysis_id,
                    {**line, **written, "tick": one.merged_tick},
                )
            )
        if one.doubted is not None:
            doubt = {
                "fields": list(one.doubted),
                "reason": one.reason,
                "tick": one.tick,
                "confidence": str(Confidence.INVALIDATED),
            }
            lines.append((events.Kind.SNAPSHOT_STALE, mysis_id, line | doubt))
    events.append_all(lines)


def _mutated(seen: _Seen) -> int | None:
    touched = writes.invalidate(
        username=seen.username,
        tool=seen.request.name,
        args=seen.arguments,
        result=seen.result,
        mutation=True,
        asked_at=seen.asked_at,
    )
    unknown_outcomes.tell(seen.request.seat.mysis_id, seen.username, touched)
    return None if seen.result.is_error else _resolve_tick(seen)


def _lost(request: Request, username: str) -> None:
    """An answer was lost: of an action its outcome, of a drain the events."""
    if request.policy == "drain":
        unknown_outcomes.lose_events(request.seat.mysis_id, username)
    elif acts(request):
        _doubt(request, username)


def _doubt(request: Request, username: str) -> None:
    given = {k: v for k, v in request.arguments.items() if k not in FILLED_IN}
    doubt(
        mysis_id=request.seat.mysis_id,
        username=username,
        tool=request.name,
        args=given,
        mutation=True,
    )


@transaction.atomic
def doubt(
    *,
    mysis_id: int,
    username: str,
    tool: str,
    args: Mapping[str, Any],
    mutation: bool | None = None,
    memory_id: int | None = None,
) -> None:
    """Mark what a call of unknown outcome may have changed, or told, and say so.

    An action is not sent again before a read has told what became of it.
    ``memory_id`` is the row of its result, for what that read says.
    """
    # Before the account, as all who hold a Mysis do: else two could wait for each other.
    locked = Mysis.objects.select_for_update(of=("self",), no_key=True)
    if not locked.filter(pk=mysis_id).exists():
        return
    if policy_by_name(tool) == "drain":
        unknown_outcomes.lose_events(mysis_id, username)
        return
    if tool not in AUTH and invalidation.is_mutation(tool, mutation):
        unknown_outcomes.note(
            mysis_id=mysis_id,
            username=username,
            tool=tool,
            args=args,
            memory_id=memory_id,
        )
    nothing = Result(content=None, is_unknown=True)
    touched = writes.invalidate(
        username=username, tool=tool, args=args, result=nothing, mutation=mutation
    )
    unknown_outcomes.tell(mysis_id, username, touched)


def _resolve_tick(seen: _Seen) -> int | None:
    """From which tick on the outcome of a queued action shows (era A)."""
    if not seen.result.queued:
        return None
    around = invalidation.Circumstances(
        current_tick=reads.tick_of(seen.username), mutation=True
    )
    hits = invalidation.touched(seen.request.name, seen.arguments, seen.result, around)
    return max(
        (h.resolve_tick for h in hits if h.resolve_tick is not None), default=None
    )


def _text(seen: _Seen) -> str:
    """The content to store: without secrets, several blocks as one JSON list."""
    blocks = [clean_text(b, seen.request.seat.secrets) for b in seen.outcome.blocks]
    if len(blocks) == 1:
        return blocks[0]
    return json.dumps([parse_text(block) for block in blocks], ensure_ascii=False)


# SECTION Says which snapshots of the fleet have grown too old to be believed.


def announce(mysis_id: int | None = None) -> int:
    """Append an event for each snapshot that crossed an age limit; how many.

    Of one Mysis, or of all that fly an account. A crossing is told once, whoever
    asks and however often.
    """
    flown = Mysis.objects.exclude(account=None)
    if mysis_id is not None:
        flown = flown.filter(pk=mysis_id)
    owners = dict(flown.values_list("account__username", "pk"))
    return sum(_announce(name, owners[name]) for name in reads.due(list(owners)))


@transaction.atomic
def _announce(username: str, mysis_id: int) -> int:
    """One account in a transaction of its own, so that no turn waits for others."""
    lines = [
        (events.Kind.SNAPSHOT_STALE, mysis_id, _line(one))
        for one in reads.crossings([username])
    ]
    events.append_all(lines)
    return len(lines)


def _line(one: reads.Crossing) -> dict[str, Any]:
    return {
        "account": one.username,
        "tool": one.tool,
        "args": dict(one.args),
        "fields": [],
        "reason": one.reason,
        "tick": one.tick,
        "confidence": one.confidence,
    }
