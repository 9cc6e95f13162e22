"""Looks at the game after an action whose reply was lost, before it may be repeated.

The read goes through the rest of the chain, so it also refreshes the cached state.
"""

from __future__ import annotations

import json
from dataclasses import replace

from django.utils import timezone

from agents.game.errors import GameCallError
from agents.tools import unknown
from agents.tools.account import AUTH
from agents.tools.crossing import cross
from agents.tools.request import CallNext, Outcome, Request, Unknown, refusal
from agents.tools.snapshot import acts
from agents.tools.unknown import Read
from memory.state import tick_of

NOT_YET = (
    "Not executed: a call of {tool} with the same arguments had an unknown outcome. "
    "{found} Call it again only if that shows that it did not happen."
)
READ_FIRST = "Call {read} {when} and compare."
LATER = "What it did may show only {when}."


async def verify(request: Request, call_next: CallNext) -> Outcome:
    """Call; an unknown outcome is looked into, and the same call held back till then."""
    if request.seat.card is None or request.name in AUTH:
        return await call_next(request)
    if not acts(request):
        outcome = await call_next(request)
        if not outcome.is_error:
            await _settle(request, request.name, outcome)
        return outcome
    same = _same(request)
    if same is not None:
        return await _not_yet(same, request, call_next)
    outcome = await call_next(request)
    return await _look(request, outcome, call_next) if outcome.unknown else outcome


def _same(request: Request) -> Unknown | None:
    given = unknown.compared(request.arguments)
    for one in request.seat.unknown:
        if one.tool == request.name and unknown.compared(one.arguments) == given:
            return one
    return None


async def _look(request: Request, outcome: Outcome, call_next: CallNext) -> Outcome:
    """Put what a read says now behind the words about a lost reply."""
    seat = request.seat
    username = seat.card.username if seat.card else ""
    seat.unknown = await cross(unknown.standing, seat.mysis_id, username)
    lost = _same(request)
    read = unknown.telling(lost, seat.tools) if lost else None
    if lost is None or read is None:
        return outcome
    words = await _read(read, request, call_next)
    if lost in seat.unknown:
        words = f"{words} {LATER.format(when=_when(lost))}"
    *before, last = outcome.blocks
    blocks = (*before, f"{last} {words}".rstrip())
    return replace(outcome, blocks=blocks, resolve_tick=lost.tick)


async def _not_yet(one: Unknown, request: Request, call_next: CallNext) -> Outcome:
    """Read in place of the repetition, and show that; the model decides then."""
    read = unknown.telling(one, request.seat.tools)
    if read is None:
        # No tool of this server tells: then words are all there is.
        await _forget(request, [one])
        return await call_next(request)
    found = await _read(read, request, call_next)
    if not found or one in request.seat.unknown:
        first = READ_FIRST.format(read=read.name, when=_when(one))
        found = f"{found} {first}".strip()
    return refusal("not_verified", NOT_YET.format(tool=one.tool, found=found))


def _when(one: Unknown) -> str:
    return "two ticks later" if one.tick is None else f"from tick {one.tick} on"


async def _read(read: Read, request: Request, call_next: CallNext) -> str:
    """What the game says now, in a sentence; empty where it says nothing."""
    raw = json.dumps(dict(read.arguments))
    asked = replace(request, name=read.name, raw=raw, arguments=read.arguments)
    try:
        outcome = await call_next(asked)
    except GameCallError:
        return ""
    if outcome.is_error:
        return ""
    await _settle(request, read.name, outcome)
    return read.told(outcome.text, outcome.tick)


async def _settle(request: Request, name: str, outcome: Outcome) -> None:
    """Forget the unknown outcomes that this answer of ``name`` tells of."""
    seat = request.seat
    if not seat.unknown or seat.card is None:
        return
    tick = outcome.tick
    if tick is None:
        tick = await cross(tick_of, seat.card.username)
    told, now = [], timezone.now()
    for one in seat.unknown:
        read = unknown.telling(one, seat.tools)
        if read is not None and read.name == name and unknown.shows(one, tick, now):
            told.append(one)
    await _forget(request, told)


async def _forget(request: Request, told: list[Unknown]) -> None:
    if told:
        await cross(unknown.settle, told)
        seat = request.seat
        seat.unknown = tuple(one for one in seat.unknown if one not in told)
