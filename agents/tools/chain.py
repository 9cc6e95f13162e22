"""Every tool call passes this chain: one behaviour a step, the outermost first.

The steps that have a body of their own stand in modules of their own; here are the two
outermost, which record every call and take the secrets out of what comes back.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import reduce
from typing import Any

from django.conf import settings
from django.utils import timezone

from agents import db, events, statements
from agents.db import run_in_db
from agents.game.accounts import make_card
from agents.game.client import GameCallError
from agents.game.sessions import get_pool
from agents.models import Account, UnknownOutcome
from agents.tools.account import use_account
from agents.tools.catalogue import load_game_tools
from agents.tools.game_calls import IN_PLACE
from agents.tools.guard import ArgumentsError, guard, read_arguments
from agents.tools.own_tools import FOR_MYSES, SILENT, answer_locally
from agents.tools.request import (
    CallNext,
    CallPlace,
    Keep,
    Outcome,
    Request,
    Step,
    ToolSession,
    ToolSpec,
)
from agents.tools.snapshot import (
    let_finish,
    store_call,
    store_unstored,
    update_snapshots,
)
from agents.tools.transport import retry, send, verify
from agents.tools.unknown_outcomes import find_read
from memory.context.tool_calls import is_own_tool
from memory.context.types import OfferedTools
from memory.gamestate.effects import LOSSES
from memory.gamestate.event_lines import EventLine, describe_events
from memory.gamestate.notices import Notice, read_notices
from memory.gamestate.outcome_lines import describe_outcome
from memory.gamestate.reactions import Owner
from memory.gamestate.values import make_storable
from memory.gamestate.values import repair_text as storable_text
from memory.models import build_row
from memory.redaction import (
    HIDDEN,
    drop_secrets,
    hide_secrets,
    hide_secrets_in_value,
    sealed,
)

LONGEST_TEXT = 500
LONGEST_ARGUMENTS = 4000


@dataclass(slots=True)
class Toolbox(ToolSession):
    """The tools of one Mysis for one turn; the game's were stored ``catalogue_at``.

    ``clashing`` are names of ours that the game has too: its own are not among the tools.
    """

    catalogue_at: datetime | None = None
    clashing: tuple[str, ...] = ()

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """All tools but those that are offered in the place of others."""
        found = self.tools.values()
        return tuple(tool.spec for tool in found if tool not in IN_PLACE.values())

    @property
    def username(self) -> str | None:
        """The game account that the Mysis plays as now."""
        return self.card.username if self.card else None

    def check(self, name: str, arguments: str) -> dict[str, Any]:
        """The arguments of a call of the game; raises ArgumentsError, also for ours."""
        tool = self.tools.get(name)
        if tool is None or tool.local:
            raise ArgumentsError(f"The game has no tool {name[:100]!r}.")
        return read_arguments(arguments, tool)

    def reads_only(self, name: str, arguments: str = "") -> bool:
        """Whether a call changes nothing; one of no tool cannot."""
        tool = self.tools.get(name)
        return tool is None or Request(self, name, arguments).reads_only

    async def look_into(self, unknown: UnknownOutcome) -> str:
        """What the game says of it now, or ""; raises GameUnreachableError."""
        read = find_read(unknown, self.tools)
        if read is None:
            return ""
        result = await self.call(read.tool, json.dumps(dict(read.arguments)))
        return "" if result.is_error else read.describe_answer(result.text, result.tick)

    async def call(
        self,
        name: str,
        arguments: str,
        *,
        keep: Keep | None = None,
        offered: OfferedTools | None = None,
        place: CallPlace | None = None,
    ) -> Outcome:
        """Call a tool with a model's JSON text; no secret comes back.

        ``offered`` are the tools that a model was offered, which may be some of all;
        ``place`` is where the call stands, where it is of the log at all.
        Errors of the game and of the arguments are results. Raises
        GameUnreachableError when the game server cannot be reached, and keeps nothing.
        """
        place = place or CallPlace(turn=self.turn)
        request = Request(
            self, name, arguments, keep=keep, offered=offered, place=place
        )
        return await _pass_chain(request)


async def open_toolbox(mysis_id: int, *, by: str = "") -> Toolbox:
    """Open the tools that a Mysis has now: the game's and ours.

    ``by`` names the person who calls them by hand. Raises GameUnreachableError.
    """
    session = await get_pool().session(mysis_id)
    toolbox = await run_in_db(_load, mysis_id, by)
    listed = await load_game_tools(session, toolbox.card)
    theirs = {name: tool for name, tool in listed.items() if not is_own_tool(name)}
    # Also where this Mysis is not offered ours: a name means one thing in all logs.
    toolbox.clashing = tuple(sorted(listed.keys() - theirs.keys()))
    toolbox.tools = {**({} if by else IN_PLACE), **theirs, **toolbox.tools}
    return toolbox


def _load(mysis_id: int, by: str) -> Toolbox:
    """What the tools need to know of a Mysis, with our own; one statement."""
    # What comes back is cleaned in the loop, which may not look itself.
    sealed.read()
    losses = list(LOSSES)
    given = [settings.SPACEMOLT_MCP_URL, losses, losses, mysis_id]
    row = db.fetch_row(statements.TOOL_SESSION, given, prepare=True)
    found = row or [None] * 10
    messaging, pk, username, session, catalogue_at, lost, policies, doubted, *more = (
        found
    )
    own = FOR_MYSES if messaging else SILENT
    toolbox = Toolbox(mysis_id, own, by=by, catalogue_at=catalogue_at)
    toolbox.policies = json.loads(policies or "{}")
    era, last_calls = more
    toolbox.era, toolbox.last_calls = era or "", json.loads(last_calls or "{}")
    if pk is not None:
        account = Account(pk=pk, username=username, sealed_session=session)
        toolbox.card = make_card(account)
        toolbox.unknown = tuple(
            build_row(UnknownOutcome, r) for r in json.loads(lost or "[]")
        )
        toolbox.doubted = tuple(doubted)
        toolbox.secrets.update(filter(None, [toolbox.card.session]))
    return toolbox


def compose(steps: Sequence[Step], last: CallNext) -> CallNext:
    """Put the steps around ``last``, the first one outermost."""

    def around(call_next: CallNext, step: Step) -> CallNext:
        return lambda request: step(request, call_next)

    return reduce(around, reversed(steps), last)


async def redact(request: Request, call_next: CallNext) -> Outcome:
    outcome = await call_next(request)
    secrets = request.caller.secrets
    blocks = tuple(drop_secrets(block, secrets) for block in outcome.blocks)
    structured = hide_secrets_in_value(outcome.structured, secrets)
    return replace(outcome, blocks=blocks, structured=structured)


async def record(request: Request, call_next: CallNext) -> Outcome:
    """Store what the call changed and a ``tool.called`` event, also of a failed call."""
    started = time.perf_counter()
    try:
        outcome = await call_next(request)
    except GameCallError as error:
        failed = Outcome((str(error),), is_error=True)
        called = [_describe_call(request, failed, _since(started))]
        await let_finish(
            run_in_db(store_call, request, [] if request.caller.polls else called)
        )
        raise
    except BaseException:
        await store_unstored(request)
        raise
    called = [_describe_call(request, outcome, _since(started))]
    if request.caller.polls and not _read_events(outcome):
        called = []
    tick = await let_finish(run_in_db(store_call, request, called, outcome))
    return replace(outcome, resolve_tick=outcome.resolve_tick or tick)


def _read_events(outcome: Outcome) -> Sequence[Notice]:
    return read_notices(outcome.read().content, timezone.now())


def _describe_call(request: Request, outcome: Outcome, ms: int) -> events.Line:
    command = request.command
    given = json.dumps(command.arguments) if command.grouped else request.raw
    shown = mask_arguments(given, request.caller.secrets)
    data = {
        "tool": storable_text(command.name)[:200],
        "arguments": HIDDEN if request.is_secret else shown,
        "ok": not outcome.is_error,
        "ms": ms,
        "tick": outcome.tick,
        **asdict(request.place),
        **_describe_outcome(request, outcome, shown if isinstance(shown, dict) else {}),
    }
    if outcome.is_error and outcome.text:
        # Why it was refused, in the game's own words; secrets were taken out before.
        said = hide_secrets(storable_text(outcome.text), request.caller.secrets)
        data["error"] = said[:200]
    if request.caller.by:
        data["by"] = request.caller.by
    return events.Kind.TOOL_CALLED, request.caller.mysis_id, data


def _describe_outcome(
    request: Request, outcome: Outcome, shown: dict[str, Any]
) -> dict[str, Any]:
    """The outcome in a line. Where events told it (``told``), the row of their action."""
    command, caller = request.command, request.caller
    call = replace(command, arguments=shown)
    result = replace(outcome.read(), is_unknown=outcome.unknown)
    lines: list[EventLine] = []
    if request.kind == "drain" and not result.is_error and not request.is_secret:
        me = Owner(caller.card.username if caller.card else "")
        lines = list(describe_events(_read_events(outcome), me, caller.era))
    words = [one.text for one in lines]
    line = describe_outcome(call, result, hidden=request.is_secret, events=words)
    found: dict[str, Any] = {"outcome": hide_secrets(line, caller.secrets)}
    if lines:
        found["told"] = len(lines)
        rows = [caller.last_calls.get(one.command) for one in lines]
        if request.place.memory is None:
            found["memory"] = next(filter(None, reversed(rows)), None)
    return found


def mask_arguments(raw: str, secrets: set[str]) -> Any:
    """Arguments for a log: secrets masked, long texts cut, bad JSON as text."""
    try:
        value = make_storable(json.loads(raw or "{}"))
    except (ValueError, RecursionError):
        return hide_secrets(storable_text(raw), secrets)[:LONGEST_TEXT]
    cleaned = _cut(hide_secrets_in_value(value, secrets))
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


# The order matters: secrets are taken out before anything is recorded, arguments are
# checked before anything is sent, and what is sent again passes the account and
# snapshot steps again.
STEPS: Sequence[Step] = (
    record,
    redact,
    guard,
    answer_locally,
    verify,
    retry,
    use_account,
    update_snapshots,
)
_pass_chain = compose(STEPS, send)
