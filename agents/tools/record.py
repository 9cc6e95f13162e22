"""Keeps passwords and session ids out of what the game answers."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from typing import Any

from agents import events
from agents.db import run_in_db
from agents.game.client import GameCallError
from agents.tools.request import CallNext, Outcome, Request
from memory.gamestate.values import clean_text as storable_text
from memory.gamestate.values import storable
from memory.redaction import HIDDEN, clean_text, clean_value


async def redact(request: Request, call_next: CallNext) -> Outcome:
    """Take every secret out of what comes back."""
    outcome = await call_next(request)
    secrets = request.seat.secrets
    blocks = tuple(clean_text(block, secrets) for block in outcome.blocks)
    return replace(outcome, blocks=blocks)


# SECTION Every call becomes one event: which tool, with what, how it went, how long.

LONGEST_TEXT = 500
LONGEST_ARGUMENTS = 4000
LONGEST_ERROR = 200


@dataclass(frozen=True, slots=True)
class _Entry:
    request: Request
    ok: bool
    ms: int
    tick: int | None = None
    error: str = ""


async def record(request: Request, call_next: CallNext) -> Outcome:
    """Append a ``tool.called`` event, also for a call that could not be made."""
    started = time.perf_counter()
    try:
        outcome = await call_next(request)
    except GameCallError as error:
        entry = _Entry(request, ok=False, ms=_since(started), error=str(error))
        await run_in_db(_append, entry)
        raise
    ok = not outcome.is_error
    said = "" if ok else outcome.text
    entry = _Entry(request, ok, _since(started), tick=outcome.tick, error=said)
    await run_in_db(_append, entry)
    return outcome


def _append(entry: _Entry) -> None:
    request = entry.request
    data = {
        "tool": storable_text(request.name)[:200],
        "arguments": HIDDEN
        if request.policy == "secret"
        else shown_arguments(request.raw, request.seat.secrets),
        "ok": entry.ok,
        "ms": entry.ms,
        "tick": entry.tick,
    }
    if entry.error:
        # Why it was refused, in the game's own words; secrets were taken out before.
        said = clean_text(storable_text(entry.error), request.seat.secrets)
        data["error"] = said[:LONGEST_ERROR]
    if request.seat.by:
        data["by"] = request.seat.by
    events.append(events.Kind.TOOL_CALLED, mysis_id=request.seat.mysis_id, data=data)


def shown_arguments(raw: str, secrets: set[str]) -> Any:
    """Arguments for a log: secrets masked, long texts cut, bad JSON as text."""
    try:
        value = storable(json.loads(raw or "{}"))
    except (ValueError, RecursionError):
        return clean_text(storable_text(raw), secrets)[:LONGEST_TEXT]
    cleaned = _cut(clean_value(value, secrets))
    text = json.dumps(cleaned, ensure_ascii=False)
    return cleaned if len(text) <= LONGEST_ARGUMENTS else text[:LONGEST_TEXT]


def _cut(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _cut(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_cut(item) for item in value]
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        return value[:LONGEST_TEXT] + "…"
    return value


def _since(started: float) -> int:
    return round((time.perf_counter() - started) * 1000)
