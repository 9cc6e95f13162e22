"""One turn: assemble, ask the model, run its tools, until it is done.

The event loop crosses into the database once per step.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from django.db import transaction

from agents import scheduling
from agents.budgets import BudgetSpentError
from agents.db import run_in_db
from agents.events import Line
from agents.game.client import GameUnreachableError
from agents.game.sessions import get_pool
from agents.llm import context_windows
from agents.llm.endpoints import resolve, resolve_with_window
from agents.llm.model_types import (
    Completion,
    CompletionRequest,
    Endpoint,
    ModelError,
)
from agents.models import ErrorCode, Mysis, Turn
from agents.runtime import answers, model_calls, turn_rows
from agents.runtime.answers import PendingCall, ask_model
from agents.runtime.cancellation import Guarded, canceller
from agents.runtime.catch_up import (
    fetch_events,
    fetch_new_events,
    passes_a_tick,
    verify_unknown,
)
from agents.runtime.finish import CallRecord, Ending, digest_call, finish_turn
from agents.runtime.model_calls import ReadyCall, list_offered
from agents.runtime.spans import (
    tell_assembly,
    tell_ending,
    tell_result,
    trace_tool,
    trace_turn,
)
from agents.runtime.summary_job import make_summary
from agents.runtime.turn_rows import TurnHandle, TurnSuperseded
from agents.telemetry import enter_call, open_span
from agents.tool_catalogue import remember_tools, tools_are_stored
from agents.tools.chain import Toolbox, open_toolbox
from agents.tools.request import NOT_EXECUTED, CallPlace, Outcome
from memory.assembly.prepare import PreparedRequest
from memory.context.types import OfferedTools

EMPTY_ANSWERS: Mapping[str, str] = {
    "length": (
        "The answer was cut off at its token limit before any word or call. Raise "
        "max_tokens in the model settings, or lower the reasoning effort."
    ),
    "content_filter": (
        "The provider's content filter withheld the answer. Look at the newest "
        "messages of the turn's context, or choose another model."
    ),
}

EMPTY_ANSWER = (
    "The model answered neither a word nor a call (finish reason: {reason}). Look at "
    "the turn's context, or choose another model."
)

# Those who are put off come back over so long a time, not all at once.
SPREAD_SECONDS = 20.0

logger = logging.getLogger(__name__)


class WindowError(Exception):
    """The context does not fit, whatever is left out."""


@dataclass
class Progress:
    """How far a turn has come.

    ``calls`` counts requests, ``left`` those to come, one made again counted once; ``seen`` is the newest row that one showed; ``retry``
    bounds the views after one that was too long; ``silence`` is why the newest answer
    says nothing; ``resolve_tick`` is when the last queued action takes effect;
    ``superseded`` says that no more calls may run; ``offered`` are the tools of the
    newest request.
    """

    calls: int = 0
    left: int = 0
    seen: int = 0
    acted: bool = False
    compacted: bool = False
    retry: context_windows.Retry | None = None
    silence: str = ""
    silence_code: str = ""
    resolve_tick: int | None = None
    superseded: bool = False
    offered: OfferedTools | None = None
    tried: list[CallRecord] = field(default_factory=list)


async def admit_turn(mysis_id: int, *, job_id: int, trigger: str) -> bool:
    """Whether a turn may be taken now; else it is scheduled for later.

    The game opens few sessions a minute: a turn that waited for one would keep a slot
    of its worker from those that have one. That is no failure, and a stop unschedules
    it as any other turn.
    """
    wait = await get_pool().begin_session(mysis_id)
    if wait > 0:
        await run_in_db(
            _postpone, mysis_id, job_id=job_id, trigger=trigger, seconds=wait
        )
    return wait <= 0


@transaction.atomic
def _postpone(mysis_id: int, *, job_id: int, trigger: str, seconds: float) -> None:
    rows = Mysis.objects.select_for_update(of=("self",))
    mysis = rows.filter(pk=mysis_id, next_job=job_id).first()
    if mysis is None:
        return
    wait = seconds + random.uniform(0, SPREAD_SECONDS)  # noqa: S311
    at = scheduling.read_clock() + timedelta(seconds=wait)
    scheduling.schedule(mysis, trigger=trigger, at=at)
    mysis.activity = "waiting for a session with the game"
    mysis.save(update_fields=["activity"])


async def take_turn(mysis_id: int, *, job_id: int, trigger: str) -> None:
    """Take one turn, if it is due; whatever happens, its end is recorded."""
    begin = run_in_db(turn_rows.begin_turn, mysis_id, job_id=job_id, trigger=trigger)
    begun = asyncio.ensure_future(begin)
    try:
        handle = await asyncio.shield(begun)
    except asyncio.CancelledError:
        handle = await begun
        if handle is not None:
            await _finish_shielded(handle, Ending(Turn.Outcome.INTERRUPTED), Progress())
        raise
    if handle is None:
        return
    with trace_turn(handle), canceller.guard(handle) as guarded:
        await _take_guarded(handle, guarded)


async def _take_guarded(handle: TurnHandle, guarded: Guarded) -> None:
    progress = Progress()
    try:
        ending = await _run(handle, progress)
    except asyncio.CancelledError:
        canceller.release(guarded)
        outcome = Turn.Outcome.INTERRUPTED
        if guarded.voided:
            outcome = Turn.Outcome.STOPPED
        await _finish_shielded(handle, Ending(outcome), progress)
        if guarded.voided:
            return
        raise
    except Exception as error:
        ending = choose_ending(error)
    canceller.release(guarded)
    await _finish_shielded(handle, ending, progress)


async def _run(handle: TurnHandle, progress: Progress) -> Ending:
    endpoint = await resolve_with_window(handle.model, handle.providers)
    toolbox = await open_toolbox(handle.mysis_id)
    toolbox.turn = handle.turn_id
    offer = toolbox.specs, toolbox.clashing
    if not tools_are_stored(*offer, toolbox.catalogue_at):
        await run_in_db(remember_tools, *offer)
    await fetch_events(handle, toolbox)
    await verify_unknown(handle, toolbox)
    for left in range(handle.max_iterations, 0, -1):
        progress.left = left
        pending = await _call(handle, endpoint, progress)
        if not pending:
            return _end(Turn.Outcome.DONE, progress)
        if await _run_tools(handle, toolbox, pending, progress):
            await fetch_new_events(handle, toolbox)
    return _end(Turn.Outcome.ITERATION_LIMIT, progress)


async def _call(
    handle: TurnHandle, endpoint: Endpoint, progress: Progress
) -> list[PendingCall]:
    """Call the model once; returns the tool calls to run now.

    A request that was too long is made again, smaller, once a turn, and in the same
    iteration: else the last one would end the turn without an answer or an error.
    """
    prepared = await _prepare(handle, endpoint, progress)
    try:
        answer, pending = await _ask(handle, endpoint, prepared)
    except ModelError as error:
        if progress.retry is not None or not context_windows.is_overflow(error):
            raise
        progress.retry = await run_in_db(
            context_windows.plan_retry, endpoint, error, prepared.estimated
        )
        endpoint = await run_in_db(resolve, handle.model)
        return await _call(handle, endpoint, progress)
    if progress.retry is not None and progress.retry.guess:
        await run_in_db(
            context_windows.remember_retry,
            progress.retry,
            mysis_id=handle.mysis_id,
            model=handle.model,
        )
    progress.silence = explain_empty_answer(answer, acted=progress.acted)
    filtered = answer.finish_reason == "content_filter"
    progress.silence_code = ErrorCode.PROVIDER if progress.silence and filtered else ""
    return pending


async def _prepare(
    handle: TurnHandle, endpoint: Endpoint, progress: Progress
) -> ReadyCall:
    """Assemble and store the next call; raises WindowError where nothing fits."""
    view = await _assemble(handle, endpoint, progress)
    if view.assembly.summary_wanted and not progress.compacted:
        # Once a turn: whatever comes of it, the call is made then (I24, L12).
        progress.compacted = True
        made = await make_summary(handle, endpoint, list_offered(view.assembly), view)
        view = await _assemble(handle, endpoint, progress, summary_calls=made)
    progress.calls += 1
    enter_call(progress.calls)
    prepared = await run_in_db(
        model_calls.persist_call, handle, progress.calls, endpoint, view
    )
    progress.seen = max(progress.seen, prepared.seen)
    progress.offered = prepared.assembly.offered
    if not prepared.assembly.messages:
        if progress.retry is not None:
            raise progress.retry.refusal
        raise WindowError(prepared.assembly.reason)
    return prepared


async def _assemble(
    handle: TurnHandle, endpoint: Endpoint, progress: Progress, summary_calls: int = 0
) -> PreparedRequest:
    with open_span("assemble_context", {"zoea.turn.id": handle.turn_id}) as span:
        view = await run_in_db(
            model_calls.assemble_next,
            handle,
            endpoint,
            within=progress.retry.tokens if progress.retry else 0,
            calls_left=progress.left,
            summary_calls=summary_calls,
        )
        tell_assembly(span, view.assembly)
    return view


async def _ask(
    handle: TurnHandle, endpoint: Endpoint, prepared: ReadyCall
) -> tuple[Completion, list[PendingCall]]:
    request = CompletionRequest(
        endpoint,
        prepared.assembly.messages,
        prepared.assembly.system,
        list_offered(prepared.assembly),
        handle.model_settings,
    )
    answer, latency = await ask_model(request, prepared.opened)
    pending = await run_in_db(answers.record_answer, handle, prepared, answer, latency)
    return answer, pending


async def _run_tools(
    handle: TurnHandle, toolbox: Toolbox, pending: list[PendingCall], progress: Progress
) -> bool:
    """Run the calls of an answer; whether a tick of the game passed with one of them."""
    has_news = False
    for place, call in enumerate(pending):
        if progress.superseded:
            raise TurnSuperseded
        try:
            keep = partial(_keep_result, handle, progress, pending[place:])
            with trace_tool(call.name, call.id, call.memory_id) as span:
                result = await toolbox.call(
                    call.name,
                    call.arguments,
                    keep=keep,
                    offered=progress.offered,
                    place=CallPlace(call.memory_id, handle.turn_id, progress.calls),
                )
                tell_result(span, result)
        except GameUnreachableError:
            await run_in_db(_record_not_executed, handle, pending[place:])
            raise
        progress.acted = progress.acted or not result.is_error
        has_news = has_news or passes_a_tick(call.name, call.arguments, result)
        read_only = toolbox.reads_only(call.name, call.arguments)
        progress.tried.append(
            digest_call(call.name, call.arguments, result, read_only=read_only)
        )
        if result.resolve_tick is not None:
            progress.resolve_tick = max(
                result.resolve_tick, progress.resolve_tick or result.resolve_tick
            )
    return has_news


def _keep_result(
    handle: TurnHandle, progress: Progress, pending: list[PendingCall], result: Outcome
) -> list[Line]:
    """Store the first call's result, and show the next, which may not run after a stop."""
    call, *left = pending
    lines = answers.write_result(handle, call, result)
    if left:
        words = f"calling {left[0].name}"
        progress.superseded = not turn_rows.show_activity(handle, words)
    return lines


def _record_not_executed(handle: TurnHandle, pending: list[PendingCall]) -> None:
    for call in pending:
        answers.record_result(handle, call, Outcome((NOT_EXECUTED,), is_error=True))


def _end(outcome: Turn.Outcome, progress: Progress) -> Ending:
    return Ending(
        outcome,
        acted=progress.acted,
        resolve_tick=progress.resolve_tick,
        error=progress.silence,
        code=progress.silence_code,
    )


def choose_ending(error: Exception) -> Ending:
    """How a turn ends after an error: what the operator reads, and whether to retry."""
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
    if isinstance(error, WindowError):
        return Ending(errored, error=str(error), code=ErrorCode.CONTEXT, fatal=True)
    if isinstance(error, BudgetSpentError):
        return Ending(Turn.Outcome.INTERRUPTED, error=str(error), held=True)
    logger.exception("A turn failed", exc_info=error)
    return Ending(
        errored,
        error=f"Internal error ({type(error).__name__}). The worker's log has more.",
    )


async def _finish_shielded(
    handle: TurnHandle, ending: Ending, progress: Progress
) -> None:
    tell_ending(ending)
    # A worker that is told to end must not leave the turn open.
    work = run_in_db(finish_turn, handle, ending, progress.seen, progress.tried)
    await asyncio.shield(asyncio.ensure_future(work))


def explain_empty_answer(answer: Completion, *, acted: bool) -> str:
    """Why an answer has neither a word nor a call; empty where it has one.

    After calls that worked, an end without words is a good end: many models do so.
    """
    if answer.text.strip() or answer.tool_calls:
        return ""
    if answer.finish_reason in EMPTY_ANSWERS:
        return EMPTY_ANSWERS[answer.finish_reason]
    return "" if acted else EMPTY_ANSWER.format(reason=answer.finish_reason or "none")
