"""The snapshot step: store what a read shows, and mark what an action changes.

The rules are in ``memory.gamestate``; logins and logouts are the account step's.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from django.db import transaction
from django.utils import timezone

from agents import events
from agents.db import run_in_db
from agents.events import Line
from agents.game.client import GameUnreachableError, RateLimitedError, SessionLostError
from agents.models import Mysis, UnknownOutcome
from agents.tools import unknown_outcomes
from agents.tools.account import AUTH
from agents.tools.purse import note_credits
from agents.tools.request import Answer, CallNext, Outcome, Request
from memory.context.tool_calls import guess_policy
from memory.game_calls import resolve_call
from memory.gamestate import invalidation
from memory.gamestate.confidence import TouchedSnapshot
from memory.gamestate.extract import Result, belongs_to
from memory.gamestate.notices import may_lack_events
from memory.gamestate.purse import Share, find_doubter, share_change
from memory.gamestate.values import parse_text
from memory.redaction import drop_secrets, hide_secrets_in_value
from memory.snapshots import notifications, reads, writes

# Failures of a call after which the game is as it was.
NOT_EXECUTED = (GameUnreachableError, SessionLostError, RateLimitedError)

T = TypeVar("T")
logger = logging.getLogger(__name__)


async def update_snapshots(request: Request, call_next: CallNext) -> Outcome:
    """Call; what the answer changes is stored with the record of the call (`store_call`).

    If the reply to an action is lost, the action may still have run: the snapshots that
    it affects become uncertain, as do those of notifications lost or not stored.
    """
    await store_unstored(request)
    card, asked_at = request.caller.card, timezone.now()
    try:
        outcome = await call_next(request)
        if card is not None and request.command.name not in AUTH:
            answer = Answer(request, outcome, card.username, asked_at)
            request.unstored.append(answer)
    except NOT_EXECUTED:
        raise
    except BaseException:
        if card is not None:
            await let_finish(run_in_db(_doubt_lost, request, card.username))
        raise
    return outcome


async def store_unstored(request: Request) -> None:
    """Store the answers of a request that goes on, or is broken off."""
    if request.unstored:
        await let_finish(run_in_db(store_call, request, ()))


def store_call(
    request: Request, called: Sequence[Line], outcome: Outcome | None = None
) -> int | None:
    """Store what a call changes, its events and its outcome, in one transaction.

    What cannot be stored counts as lost. Returns the tick of a queued action's effect.
    """
    answers = tuple(request.unstored)
    request.unstored.clear()
    try:
        return _store(request, answers, called, outcome)
    except Exception:
        if not answers:
            raise
        name = request.name
        logger.exception(
            "The answer to %s was not stored: its state is in doubt.", name
        )
    for answer in answers:
        _doubt_lost(answer.request, answer.username)
    return _store(request, (), called, outcome)


async def let_finish(work: Coroutine[Any, Any, T]) -> T:
    """Let work end that must not be lost; whoever cancels waits for it."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


@transaction.atomic
def _store(
    request: Request,
    answers: Sequence[Answer],
    called: Sequence[Line],
    outcome: Outcome | None,
) -> int | None:
    # It locks the row of the Mysis, before the account is: as whoever ends a turn.
    kept = request.keep(outcome) if request.keep and outcome else ()
    lines: list[Line] = []
    resolve_tick = None
    for answer in answers:
        more, resolve_tick = _store_answer(answer)
        lines += more
    if answers and request.settled:
        # Not before what shows it: else the action could be sent again unchecked.
        UnknownOutcome.objects.filter(pk__in=request.settled).delete()
        request.settled.clear()
    events.append_all([*lines, *called, *kept])
    return resolve_tick


def _store_answer(answer: Answer) -> tuple[Sequence[Line], int | None]:
    """Store what an answer shows; its events, and when a queued action takes effect."""
    if changes_snapshots(answer.request):
        return _invalidate(answer)
    kept = not answer.request.is_secret
    if answer.request.kind == "snapshot" and kept and not answer.result.is_error:
        return _capture(answer), None
    if answer.request.kind == "drain" and kept:
        return _merge_notifications(answer), None
    if belongs_to(answer.result, answer.username):
        writes.note_tick(username=answer.username, result=answer.result)
    return (), None


def changes_snapshots(request: Request) -> bool:
    """Whether a tool changes something that snapshots show.

    Some do though they take no turn, and servers that mark no tool as reading call
    them no mutation (captains_log_add, chat: API.md 1.8).
    """
    told = request.kind == "mutation"
    return invalidation.is_mutation(request.command.name, told)


def _capture(answer: Answer) -> list[Line]:
    """Store a snapshot, with an event; one more if an action has outdated it already."""
    tool, args = answer.request.command.name, answer.request.own_arguments
    mysis_id = answer.request.caller.mysis_id
    row = writes.capture_snapshot(
        username=answer.username,
        tool=tool,
        args=args,
        text=_join_blocks(answer),
        result=answer.result,
        asked_at=answer.asked_at,
    )
    if row is None:
        return []
    if row.credits is not None and row.credits != row.replaced_credits:
        doubter = find_doubter(row.replaced_mark)
        note_credits(
            mysis_id,
            answer.username,
            row.credits,
            lambda before, after: [Share(after - before, doubter, untold=True)],
        )
    data = {
        "account": answer.username,
        "tool": tool,
        "args": args,
        "tick": row.game_tick,
    }
    lines: list[Line] = [(events.Kind.SNAPSHOT_UPDATED, mysis_id, data)]
    mark = row.get_joined_mark()
    if mark is not None and mark != row.replaced_mark:
        now = TouchedSnapshot(tool, args, mark)
        stale = unknown_outcomes.build_stale_event(mysis_id, answer.username, now)
        lines.append(stale)
    return lines


def _join_blocks(answer: Answer) -> str:
    both = answer.outcome.with_structure()
    if both is not None:
        hidden = hide_secrets_in_value(both, answer.request.caller.secrets)
        return json.dumps(hidden, ensure_ascii=False)
    blocks = [
        drop_secrets(b, answer.request.caller.secrets) for b in answer.outcome.blocks
    ]
    if len(blocks) == 1:
        return blocks[0]
    return json.dumps([parse_text(block) for block in blocks], ensure_ascii=False)


def _invalidate(answer: Answer) -> tuple[list[Line], int | None]:
    touched, resolve_tick = writes.invalidate_snapshots(
        username=answer.username,
        tool=answer.request.command.name,
        args=answer.request.own_arguments,
        result=answer.result,
        mutation=True,
        asked_at=answer.asked_at,
    )
    mysis_id = answer.request.caller.mysis_id
    lines: list[Line] = [
        unknown_outcomes.build_stale_event(mysis_id, answer.username, one)
        for one in touched
    ]
    return lines, resolve_tick


def _merge_notifications(answer: Answer) -> list[Line]:
    mysis_id = answer.request.caller.mysis_id
    if not answer.result.is_error and may_lack_events(answer.result.content):
        unknown_outcomes.lose_events(mysis_id, answer.username)
    lines: list[Line] = []
    # Redaction stands outside of this step, and the events are kept and shown.
    content = hide_secrets_in_value(
        answer.result.content, answer.request.caller.secrets
    )
    result = replace(answer.result, content=content)
    merged = notifications.merge_notifications(
        username=answer.username, result=result, asked_at=answer.asked_at
    )
    for one in merged:
        if one.credits is not None:
            share = partial(share_change, events=one.events, username=answer.username)
            note_credits(mysis_id, answer.username, one.credits, share)
        line = {"account": answer.username, "tool": one.tool, "args": dict(one.args)}
        if one.merged:
            written = {
                "fields": list(one.merged),
                "reason": answer.request.command.name,
                "tick": max(one.merged.values()),
            }
            lines.append((events.Kind.SNAPSHOT_UPDATED, mysis_id, line | written))
        if one.doubt is not None:
            doubt = one.doubt
            lines.append(
                unknown_outcomes.build_stale_event(mysis_id, answer.username, doubt)
            )
    return lines


def _doubt_lost(request: Request, username: str) -> None:
    if request.kind == "drain":
        unknown_outcomes.lose_events(request.caller.mysis_id, username)
    elif changes_snapshots(request):
        doubt_call(
            mysis_id=request.caller.mysis_id,
            username=username,
            tool=request.command.name,
            args=request.own_arguments,
            mutation=True,
        )


@transaction.atomic
def doubt_call(
    *,
    mysis_id: int,
    username: str,
    tool: str,
    args: Mapping[str, Any],
    mutation: bool | None = None,
    memory_id: int | None = None,
) -> None:
    """Mark what a call of unknown outcome may have changed.

    An action is not sent again before a read has shown what became of it.
    ``memory_id`` is the row of its result, for what that read says.
    """
    call = resolve_call(tool, args)
    tool, args = call.name, call.arguments
    # Before the account, as all who hold a Mysis do: else two could wait for each other.
    rows = Mysis.objects.select_for_update(of=("self",), no_key=True)
    if not rows.filter(pk=mysis_id).exists():
        return
    if guess_policy(tool) == "drain":
        unknown_outcomes.lose_events(mysis_id, username)
        return
    if tool not in AUTH and invalidation.is_mutation(tool, mutation):
        unknown_outcomes.note_unknown(
            mysis_id=mysis_id,
            username=username,
            tool=tool,
            args=args,
            memory_id=memory_id,
        )
    nothing = Result(content=None, is_unknown=True)
    touched, _ = writes.invalidate_snapshots(
        username=username, tool=tool, args=args, result=nothing, mutation=mutation
    )
    unknown_outcomes.append_stale_events(mysis_id, username, touched)


def announce_aged(mysis_id: int | None = None) -> int:
    """Append an event for each snapshot that crossed an age limit; returns how many.

    Of one Mysis, or of all that fly an account; a crossing is reported once.
    """
    flown = Mysis.objects.exclude(account=None)
    if mysis_id is not None:
        flown = flown.filter(pk=mysis_id)
    owners = dict(flown.values_list("account__username", "pk"))
    return sum(
        _announce_account(name, owners[name])
        for name in reads.find_due_accounts(list(owners))
    )


@transaction.atomic
def _announce_account(username: str, mysis_id: int) -> int:
    """One account in a transaction of its own, so that no turn waits for others."""
    aged = reads.claim_crossings(username)
    unknown_outcomes.append_stale_events(mysis_id, username, aged)
    return len(aged)
