"""The making of a summary in a turn: asked for, checked, and committed or refused.

Nothing is changed until a summary is good: a refusal, a timeout, a stop or a crash
leaves the log and its summaries as they were (I23). At most two attempts are made in
a turn, then the turn goes on without (I24).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from agents import events
from agents.actions import settings
from agents.budgets import BudgetSpentError
from agents.db import run_in_db
from agents.events import Kind
from agents.llm.context_windows import is_overflow
from agents.llm.model_types import (
    Completion,
    CompletionRequest,
    Endpoint,
    ModelError,
    ModelTimeoutError,
    OfferedTool,
)
from agents.runtime import answers, model_calls, turn_rows
from agents.runtime.answers import ask_model
from agents.runtime.model_calls import CallEstimate
from agents.runtime.turn_rows import TurnHandle, TurnSuperseded, lock_for_turn
from memory.assembly import history_summaries
from memory.assembly.hashes import hash_span
from memory.assembly.history_summaries import (
    BREAKER_FAILURES,
    BREAKER_TURNS,
    Effort,
    Outdated,
    Span,
)
from memory.assembly.prepare import PreparedRequest
from memory.context.payback import Payback
from memory.context.summary_prompt import (
    SummaryRefused,
    check_summary,
    find_literals,
    find_missing_literals,
    read_summary,
)
from memory.context.tokens import TokenCounter, choose_counter
from memory.context.types import AssemblyRequest, Message
from memory.gamestate.values import repair_text
from memory.models import HistorySummary

ATTEMPTS = 2
SECONDS = 60.0

# Tokens of an answer beside its summary: tags, and thoughts before them.
MARGIN = 1_000

# With these a provider refuses a request that it has no room for.
TOO_LONG = (400, 413, 422)

logger = logging.getLogger(__name__)
CORRECTION = "\n\nYour first answer was refused: {reason} Answer again, and mend that."


@dataclass(frozen=True, slots=True)
class SummaryRequest:
    """A summary to make: its span, its request, and what it is checked against.

    ``folded`` are the tokens of the messages that it is to cover, ``replaced`` those
    together with the summary before. ``literals`` are the names and numbers of pins
    and of the newest covered order that the request shows. ``payback`` is what it saves
    and costs, None where no price is known.
    """

    span: Span
    request: list[dict[str, Any]]
    system: str | None
    limit: int
    folded: int
    replaced: int
    literals: tuple[str, ...]
    count: TokenCounter
    payback: Payback | None = None


@dataclass(slots=True)
class SummaryJob:
    """How far one summary has come."""

    handle: TurnHandle
    endpoint: Endpoint
    tools: Sequence[OfferedTool]
    wanted: SummaryRequest
    effort: Effort
    failure: str = ""
    correction: str = ""
    hopeless: bool = False


async def make_summary(
    handle: TurnHandle,
    endpoint: Endpoint,
    tools: Sequence[OfferedTool],
    view: PreparedRequest,
) -> int:
    """Make the summary that a view asks for, and store it, or why there is none.

    Returns how many requests were made. Raises TurnSuperseded, BudgetSpentError, and
    ModelError where the provider is out of order: the turn's own call would fail too.
    """
    wanted = await run_in_db(build_request, view)
    await run_in_db(turn_rows.report_activity, handle, describe_summary(wanted))
    job = SummaryJob(
        handle, endpoint, tools, wanted, Effort(handle.number, handle.model)
    )
    done = False
    try:
        while not done and job.effort.attempts < ATTEMPTS and not job.hopeless:
            text = await _try_once(job)
            if text:
                await run_in_db(commit_summary, handle, job.wanted, text, job.effort)
                done = True
    except (ModelError, TurnSuperseded, BudgetSpentError):
        raise
    except Exception as error:
        # Whatever it is, it must not come back with every turn.
        if not isinstance(error, Outdated):
            logger.exception("A summary failed", exc_info=error)
        job.failure = str(error) or type(error).__name__
    if not done:
        await run_in_db(record_failure, handle, job.wanted, job.failure, job.effort)
    return job.effort.attempts


def describe_summary(wanted: SummaryRequest) -> str:
    """What is being done, and when it pays back, before it is asked for."""
    found = wanted.payback
    if found is None:
        return "summarising"
    when = "the budget needs it" if found.needed else found.when
    return f"summarising: saves {found.tokens:,} tokens a call, {when}"


async def _try_once(job: SummaryJob) -> str:
    """Make one request; "" where it gave no good summary, with the reason noted."""
    job.effort.attempts += 1
    last = job.effort.attempts >= ATTEMPTS
    try:
        answer = await _ask(job)
        if answer.tool_calls:
            raise SummaryRefused("The answer calls a tool in place of a summary.")
        text = read_summary(answer.text)
        check_summary(
            text,
            count=job.wanted.count,
            limit=job.wanted.limit,
            replaced=job.wanted.replaced,
            literals=() if last else job.wanted.literals,
        )
        return text
    except SummaryRefused as error:
        job.failure = str(error)
        job.correction = CORRECTION.format(reason=error)
    except ModelError as error:
        too_slow = isinstance(error, ModelTimeoutError)
        if not (too_slow or is_overflow(error) or error.status in TOO_LONG):
            raise
        job.failure = str(error)
        if not last:
            await _fold_less(job)
    return ""


async def _fold_less(job: SummaryJob) -> None:
    """Ask for the older half only: the request was too long, or took too long.

    What is left out of it stays in the view, so no order is lost. Where less is not
    worth a summary, the same request is not made again.
    """
    half = max(1, job.wanted.folded // 2)
    view = await run_in_db(
        model_calls.assemble_next, job.handle, job.endpoint, fold_tokens=half
    )
    if view.assembly.summary_wanted:
        job.wanted = await run_in_db(build_request, view)
    else:
        job.hopeless = True


async def _ask(job: SummaryJob) -> Completion:
    asked = job.wanted
    messages = _with_correction(asked.request, job.correction)
    estimate = CallEstimate(
        job.endpoint,
        job.effort.attempts,
        asked.count(json.dumps(messages)),
        asked.limit,
        summary=True,
    )
    opened, _ = await run_in_db(model_calls.open_call, job.handle, estimate)
    request = CompletionRequest(
        job.endpoint,
        messages,
        asked.system,
        job.tools,
        _summary_settings(job.handle.model_settings, asked.limit),
    )
    answer, latency = await ask_model(request, opened)
    job.effort.add_answer(
        tokens=(answer.usage.input, answer.usage.output, answer.usage.cached),
        cost=answer.cost,
        latency_ms=latency,
    )
    await run_in_db(answers.record_usage, opened, answer, latency)
    return answer


def _summary_settings(own: Mapping[str, Any], limit: int) -> dict[str, Any]:
    """The Mysis's own; a short limit of its answers must not cut a summary."""
    settings = {**own, "timeout": SECONDS}
    most = own.get("max_tokens")
    if isinstance(most, int):
        settings["max_tokens"] = max(most, limit + MARGIN)
    return settings


def _with_correction(
    messages: list[dict[str, Any]], correction: str
) -> list[dict[str, Any]]:
    if not correction:
        return messages
    *before, prompt = messages
    content = prompt["content"]
    if isinstance(content, str):
        return [*before, {**prompt, "content": content + correction}]
    block = {"type": "text", "text": correction.strip()}
    return [*before, {**prompt, "content": [*content, block]}]


def build_request(view: PreparedRequest) -> SummaryRequest:
    """What an assembly asks for, with the state of the history that it saw."""
    settings.install_summary_prompt()
    asked = view.assembly.summary_wanted
    if asked is None:
        raise ValueError("The assembly asks for no summary.")
    request = view.request
    inside = [m for m in request.messages if asked.first_id <= m.id <= asked.last_id]
    return SummaryRequest(
        span=Span(
            view.subject.mysis_id,
            asked.first_id,
            asked.last_id,
            request.summary.generation if request.summary else 0,
            hash_span(inside),
        ),
        request=asked.request,
        system=view.assembly.system,
        limit=asked.limit,
        folded=asked.folded,
        replaced=asked.replaced,
        literals=_literals(request, inside),
        count=choose_counter(request.counter, request.calibration),
        payback=asked.payback,
    )


def _literals(request: AssemblyRequest, inside: Sequence[Message]) -> tuple[str, ...]:
    """What must survive: of pins and the newest order, what the history says too."""
    orders = [m.content for m in inside if m.is_order()]
    said = [m.content for m in inside if m.role != "tool"]
    before = [request.summary.text] if request.summary else []
    shown = "\n".join([*before, *said])
    texts = (*request.pins, *orders[-1:])
    found = dict.fromkeys(part for text in texts for part in find_literals(text))
    lost = set(find_missing_literals(shown, found))
    return tuple(literal for literal in found if literal not in lost)


@transaction.atomic
def commit_summary(
    handle: TurnHandle, asked: SummaryRequest, text: str, effort: Effort
) -> HistorySummary:
    """Store the summary under the Mysis's row lock, with its event.

    Raises TurnSuperseded after a stop, Outdated where the history is another by now.
    """
    lock_for_turn(handle)
    # Whatever is made of the history next is made of what it is now.
    handle.reads.tail = None
    lost = find_missing_literals(text, asked.literals)
    row = history_summaries.commit_summary(
        asked.span,
        text=repair_text(text),
        tokens=(asked.replaced, asked.count(text)),
        effort=effort,
        note=f"It does not name {', '.join(lost)}." if lost else "",
    )
    data = {
        "summary": row.pk,
        "generation": row.generation,
        "first_id": row.first_id,
        "through_id": row.through_id,
        "tokens_before": row.tokens_before,
        "tokens_after": row.tokens_after,
        "attempts": row.attempts,
        "cost": str(row.cost),
        **({"payback": asked.payback.describe()} if asked.payback else {}),
        "reason": (
            f"Messages {row.first_id} to {row.through_id} are summarised: "
            f"{row.tokens_before:,} tokens became {row.tokens_after:,}."
        ),
    }
    events.append(Kind.CONTEXT_COMPACTED, mysis_id=handle.mysis_id, data=data)
    return row


@transaction.atomic
def record_failure(
    handle: TurnHandle, asked: SummaryRequest, error: str, effort: Effort
) -> None:
    """Store a failure, and tell the operator what follows from it."""
    lock_for_turn(handle)
    history_summaries.record_failure(
        asked.span, error=repair_text(error), effort=effort
    )
    after = history_summaries.check_compaction(handle.mysis_id, turn=handle.number + 1)
    then = (
        f"It failed {BREAKER_FAILURES} times in a row or more: for {BREAKER_TURNS} turns "
        "it is not tried. Until then, what does not fit is left out. Look at the summarization "
        "prompt and at the model."
        if after.breaker_open
        else f"For {after.cooling_turns} turns it is not tried again."
    )
    detail = f"The history could not be summarised: {error} {then}"
    events.append_error(handle.mysis_id, repair_text(detail), code="summary")
