"""One game tool by hand: the operator calls it for a Mysis.

The call goes through the same chain as a Mysis's own and stands in the log for the Mysis
to see, as the operator's. It runs in an event loop of its own: the game may take minutes,
and the log must not wait for the caller's transaction, if there is one.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any
from uuid import uuid4

from django.db import transaction
from django.utils import timezone

from agents import events
from agents.actions.base import (
    ActionError,
    describe_memory,
    lock_mysis,
    name_mysis,
)
from agents.db import run_in_db
from agents.game import sessions
from agents.game.client import GameUnreachableError
from agents.models import Mysis
from agents.statements import LONGEST_COMMAND
from agents.tools.account import AUTH
from agents.tools.chain import open_toolbox
from agents.tools.guard import ArgumentsError
from agents.tools.request import INTERRUPTED, NOT_EXECUTED, CallPlace, Outcome
from agents.tools.snapshot import doubt_call
from memory import audit
from memory.context.tokens import estimate_tokens
from memory.game_calls import resolve_call
from memory.gamestate.values import repair_text
from memory.models import Memory, Origin, Role
from memory.models.secret_tools import read_secret_tools
from memory.redaction import HIDDEN, hide_secrets_in_value
from memory.snapshots.reads import read_tick


def run_command(
    *, mysis: Mysis, tool: str, arguments: Mapping[str, Any], by: str
) -> Memory:
    """Run one game tool; returns the result as it stands in the log.

    An error of the game is a result. Raises ActionError 422 for an unknown tool or
    arguments, 409 while a command runs or a turn forbids it, 503 without the game.
    """
    given = json.dumps(dict(arguments))
    with ThreadPoolExecutor(max_workers=1) as thread:
        # In the context of the request, which knows who acts and from where.
        start = partial(asyncio.run, _run(mysis, tool, given, by))
        work = thread.submit(copy_context().run, start)
        memory_id = work.result()
    return Memory.objects.get(pk=memory_id)


async def _run(mysis: Mysis, tool: str, given: str, by: str) -> int:
    try:
        return await _call(mysis, tool, given, by)
    except GameUnreachableError as error:
        raise ActionError(error.detail, code="game_unreachable", status=503) from error
    finally:
        await sessions.get_pool().close()


async def _call(mysis: Mysis, tool: str, given: str, by: str) -> int:
    toolbox = await open_toolbox(mysis.pk, by=by)
    try:
        arguments = toolbox.check(tool, given)
    except ArgumentsError as error:
        raise ActionError(str(error), code="invalid", status=422) from error
    row = await run_in_db(_begin, mysis, tool, arguments, by)
    try:
        place = CallPlace(memory=row)
        result = await toolbox.call(tool, json.dumps(arguments), place=place)
    except GameUnreachableError:
        await run_in_db(_end, row, Outcome((NOT_EXECUTED,), is_error=True))
        raise
    except BaseException:
        await asyncio.shield(run_in_db(_interrupt, row))
        raise
    await run_in_db(_end, row, result)
    return row


@transaction.atomic
def _begin(mysis: Mysis, tool: str, arguments: Mapping[str, Any], by: str) -> int:
    """Store the call with a result that is open; raises ActionError 409."""
    mysis = lock_mysis(mysis)
    command = resolve_call(tool, arguments)
    _check(mysis, command.name)
    call_id = f"hand_{uuid4().hex[:12]}"
    shown = hide_secrets_in_value(dict(arguments))
    function = {"name": tool, "arguments": json.dumps(shown)}
    common = {
        "mysis": mysis,
        "sender": by[:200],
        "tick": read_tick(mysis.account.username if mysis.account else None),
    }
    content = f"(Run by hand by {repair_text(by)}.)"
    speech = Memory.objects.create(
        **common,
        role=Role.ASSISTANT,
        origin=Origin.AGENT,
        content=content,
        tool_calls=[{"id": call_id, "type": "function", "function": function}],
        tokens=estimate_tokens(content),
    )
    row = Memory.objects.create(
        **common,
        role=Role.TOOL,
        origin=Origin.TOOL,
        tool_call_id=call_id,
        tool_name=command.name[:200],
        args=hide_secrets_in_value(dict(command.arguments)),
        pending=True,
    )
    _announce(speech)
    is_secret = not read_secret_tools().isdisjoint({tool, command.name})
    told = {"tool": command.name, "arguments": HIDDEN if is_secret else row.args}
    audit.record("mysis.command", name_mysis(mysis), by=by, after=told)
    return row.pk


def _check(mysis: Mysis, tool: str) -> None:
    opened = Memory.objects.filter(mysis=mysis, pending=True, turn=None)
    since = timezone.now() - LONGEST_COMMAND
    if opened.filter(created_at__gte=since).exists():
        raise ActionError(
            f"A command of {mysis.name} still runs: wait for its answer.", code="busy"
        )
    for row in opened.order_by("pk"):
        _interrupt(row.pk)
    # A turn under way must be able to trust as whom its Mysis plays.
    if tool in AUTH and mysis.turns.filter(outcome__isnull=True).exists():
        raise ActionError(
            f"{mysis.name} is in the middle of a turn and plays as its account: stop "
            f"it first, then {tool}.",
            code=mysis.state,
        )


@transaction.atomic
def _interrupt(memory_id: int) -> None:
    """Give a call up: what it may have changed is in doubt."""
    row = Memory.objects.select_related("mysis__account").filter(pk=memory_id).first()
    if row is None or not _locked(row.mysis_id):
        return
    if row.mysis.account is not None:
        doubt_call(
            mysis_id=row.mysis_id,
            username=row.mysis.account.username,
            tool=row.tool_name,
            args=row.args,
        )
    _end(memory_id, Outcome((INTERRUPTED,), is_error=True))


@transaction.atomic
def _end(memory_id: int, result: Outcome) -> None:
    """Store the result, also where the call was given up meanwhile."""
    row = Memory.objects.filter(pk=memory_id).first()
    # The Mysis before its rows, as a turn locks them; it may be deleted meanwhile.
    if row is None or not _locked(row.mysis_id):
        return
    row.content = result.kept_text
    row.is_error = result.is_error
    row.pending = False
    row.tick = result.tick if result.tick is not None else row.tick
    row.tokens = estimate_tokens(row.content)
    row.save(update_fields=["content", "is_error", "pending", "tick", "tokens"])
    _announce(row)


def _locked(mysis_id: int) -> bool:
    rows = Mysis.objects.select_for_update(of=("self",))
    return rows.filter(pk=mysis_id).exists()


def _announce(row: Memory) -> None:
    events.append_all([describe_memory(row)])
    Mysis.objects.filter(pk=row.mysis_id).update(last_memory_at=timezone.now())
