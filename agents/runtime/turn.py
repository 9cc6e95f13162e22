"""Answers with neither a word nor a call: why, and what to do about it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from asgiref.sync import ThreadSensitiveContext

from agents.budgets import BudgetSpentError
from agents.context_inputs import remember_tools
from agents.db import run_in_db
from agents.game.client import GameUnreachableError
from agents.llm.endpoints import resolve_with_window
from agents.llm.errors import is_overflow
from agents.llm.model_types import Completion, Endpoint, ModelError
from agents.models import ErrorCode, Turn
from agents.runtime import answers, model_calls, turn_rows
from agents.runtime import finish as endings
from agents.runtime.answers import PendingCall, ask_model
from agents.runtime.cancellation import Guarded, watch
from agents.runtime.catch_up import fetch_events, verify
from agents.runtime.finish import CallRecord, Ending, record_call
from agents.runtime.model_calls import ReadyCall, Retry
from agents.runtime.summary_job import compact
from agents.runtime.turn_rows import TurnHandle, TurnSuperseded
from agents.tools.chain import Toolbox, open_toolbox
from agents.tools.request import ToolResult

REASONS: Mapping[str, str] = {
    "length": (
        "The answer was cut off at its token limit before any word or call. Raise "
        "max_tokens in the model settings, or lower the reasoning effort."
    ),
    "content_filter": (
        "The provider's content filter withheld the answer. Look at the newest "
        "messages of the turn's context, or choose another model."
    ),
}
OTHER = (
    "The model answered neither a word nor a call (finish reason: {reason}). Look at "
    "the turn's context, or choose another model."
)


def empty_answer_reason(answer: Completion, *, acted: bool) -> str:
    """Why an answer says nothing; empty where it says something.

    After calls that worked, an end without words is a good end: many models do so.
    """
    if answer.text.strip() or answer.tool_calls:
        return ""
    if answer.finish_reason in REASONS:
        return REASONS[answer.finish_reason]
    return "" if acted else OTHER.format(reason=answer.finish_reason or "none")


# SECTION One turn: assemble, ask the model, run its tools, until it is done.
#
# The event loop crosses into the database once per step. Every turn has a
# thread of its own for that, else all turns of a worker would share one.

NOT_EXECUTED = "Error: game_unreachable: not executed, the game cannot be reached."

logger = logging.getLogger(__name__)


class WindowError(Exception):
    """The context cannot be made to fit, whatever is left out."""


@dataclass
class Progress:
    """What a turn has come to so far.

    ``calls`` counts requests; ``fit`` bounds the views after one that was too long;
    ``silence`` is why the newest answer says nothing.
    """

    calls: int = 0
    seen: int = 0
    acted: bool = False
    compacted: bool = False
    fit: Retry | None = None
    silence: str = ""
    silence_code: str = ""
    resolve_tick: int | None = None
    tried: list[CallRecord] = field(default_factory=list)


async def take_turn(mysis_id: int, *, job_id: int, trigger: str) -> None:
    """Take one turn, if it is due; whatever happens, its end is recorded."""
    async with ThreadSensitiveContext():
        begun = await run_in_db(
            turn_rows.begin, mysis_id, job_id=job_id, trigger=trigger
        )
        if begun is None:
            return
        with watch.guard(begun) as guarded:
            await _take(begun, guarded)


async def _take(begun: TurnHandle, guarded: Guarded) -> None:
    progress = Progress()
    try:
        ending = await _play(begun, progress)
    except asyncio.CancelledError:
        watch.release(guarded)
        await _shielded(begun, _cut_short(guarded), progress)
        if guarded.voided:
            return
        raise
    except Exception as error:
        ending = failure(error)
    watch.release(guarded)
    await _shielded(begun, ending, progress)


async def _shielded(begun: TurnHandle, ending: Ending, progress: Progress) -> None:
    # A worker that is told to end must not leave the turn open.
    work = run_in_db(endings.finish, begun, ending, progress.seen, progress.tried)
    await asyncio.shield(asyncio.ensure_future(work))


def _cut_short(guarded: Guarded) -> Ending:
    stopped = Turn.Outcome.STOPPED
    return Ending(stopped if guarded.voided else Turn.Outcome.INTERRUPTED)


async def _play(begun: TurnHandle, progress: Progress) -> Ending:
    endpoint = await resolve_with_window(begun.model)
    toolbox = await open_toolbox(begun.mysis_id)
    await run_in_db(remember_tools, toolbox.specs)
    await fetch_events(begun, toolbox)
    await verify(begun, toolbox)
    for _ in range(begun.max_iterations):
        pending = await _call(begun, endpoint, toolbox, progress)
        if not pending:
            return _ended(Turn.Outcome.DONE, progress)
        await _run_tools(begun, toolbox, pending, progress)
    return _ended(Turn.Outcome.ITERATION_LIMIT, progress)


async def _call(
    begun: TurnHandle, endpoint: Endpoint, toolbox: Toolbox, progress: Progress
) -> list[PendingCall]:
    """One call of the model; what it wants called now.

    One that was too long is made again, smaller, once a turn, and in the same
    iteration: else the last one would end the turn without an answer or an error.
    """
    prepared = await _prepare(begun, endpoint, toolbox, progress)
    try:
        answer, pending = await _ask(begun, endpoint, toolbox, prepared)
    except ModelError as error:
        if progress.fit is not None or not is_overflow(error):
            raise
        estimated = prepared.estimated
        progress.fit = await run_in_db(
            model_calls.plan_retry, endpoint, error, estimated
        )
        return await _call(begun, endpoint, toolbox, progress)
    if progress.fit is not None and progress.fit.guess:
        await run_in_db(model_calls.remember_retry, begun, progress.fit)
    progress.silence = empty_answer_reason(answer, acted=progress.acted)
    filtered = answer.finish_reason == "content_filter"
    progress.silence_code = ErrorCode.PROVIDER if progress.silence and filtered else ""
    return pending


async def _prepare(
    begun: TurnHandle, endpoint: Endpoint, toolbox: Toolbox, progress: Progress
) -> ReadyCall:
    """What the next call is sent, kept; raises WindowError where nothing fits."""
    within = progress.fit.tokens if progress.fit else 0
    view = await run_in_db(model_calls.assemble_next, begun, within=within)
    if view.assembly.summary_wanted and not progress.compacted:
        # Once a turn: whatever comes of it, the call is made then (I24, L12).
        progress.compacted = True
        made = await compact(begun, endpoint, toolbox.specs, view)
        view = await run_in_db(
            model_calls.assemble_next, begun, summary_calls=made, within=within
        )
    progress.calls += 1
    prepared = await run_in_db(
        model_calls.persist_call, begun, progress.calls, endpoint, view
    )
    progress.seen = max(progress.seen, prepared.seen)
    if not prepared.assembly.messages:
        if progress.fit is not None:
            raise progress.fit.refusal
        raise WindowError(prepared.assembly.reason)
    return prepared


async def _ask(
    begun: TurnHandle, endpoint: Endpoint, toolbox: Toolbox, prepared: ReadyCall
) -> tuple[Completion, list[PendingCall]]:
    """Make the call and store its answer; with it what the model wants called now."""
    answer, latency = await ask_model(
        endpoint,
        prepared.opened,
        messages=prepared.assembly.messages,
        system=prepared.assembly.system,
        tools=toolbox.specs,
        settings=begun.model_settings,
    )
    pending = await run_in_db(answers.record_answer, begun, prepared, answer, latency)
    return answer, pending


async def _run_tools(
    begun: TurnHandle, toolbox: Toolbox, pending: list[PendingCall], progress: Progress
) -> None:
    for place, call in enumerate(pending):
        if place:
            await run_in_db(turn_rows.doing, begun, f"calling {call.name}")
        try:
            result = await toolbox.call(call.name, call.arguments)
        except GameUnreachableError:
            await run_in_db(_not_executed, begun, pending[place:])
            raise
        await run_in_db(answers.record_result, begun, call, result)
        progress.acted = progress.acted or not result.is_error
        progress.tried.append(_tried(toolbox, call, result))
        if result.resolve_tick is not None:
            progress.resolve_tick = max(
                result.resolve_tick, progress.resolve_tick or result.resolve_tick
            )


def _tried(toolbox: Toolbox, call: PendingCall, result: ToolResult) -> CallRecord:
    spec = next((spec for spec in toolbox.specs if spec.name == call.name), None)
    return record_call(
        call.name,
        call.arguments,
        result.text,
        is_error=result.is_error,
        read_only=spec is None or spec.read_only,
    )


def _not_executed(begun: TurnHandle, pending: list[PendingCall]) -> None:
    for call in pending:
        answers.record_result(begun, call, ToolResult(NOT_EXECUTED, is_error=True))


def _ended(outcome: Turn.Outcome, progress: Progress) -> Ending:
    return Ending(
        outcome,
        acted=progress.acted,
        resolve_tick=progress.resolve_tick,
        error=progress.silence,
        code=progress.silence_code,
    )


def failure(error: Exception) -> Ending:
    """A failed turn: what the operator reads, and whether to try again."""
    errored = Turn.Outcome.ERRORED
    if isinstance(error, TurnSuperseded):
        return Ending(Turn.Outcome.STOPPED)
    if isinstance(error, ModelError):
        return Ending(
            errored,
            error=str(error),
            code=error.code,
            fatal=not error.retryable,
            retry_after=error.retry_after,
        )
    if isinstance(error, GameUnreachableError):
        return Ending(
            errored,
            error=str(error),
            code=ErrorCode.GAME,
            retry_after=error.retry_after,
        )
    if isinstance(error, BudgetSpentError):
        return Ending(Turn.Outcome.INTERRUPTED, error=str(error), held=True)
    if isinstance(error, WindowError):
        return Ending(errored, error=str(error), fatal=True)
    logger.exception("A turn failed", exc_info=error)
    return Ending(
        errored,
        error=f"Internal error ({type(error).__name__}). The worker's log has more.",
    )
