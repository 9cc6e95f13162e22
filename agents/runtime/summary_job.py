"""The database side of a summary: what is wanted, its check, its commit."""

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
from agents.llm.errors import is_overflow
from agents.llm.model_types import (
    Completion,
    Endpoint,
    ModelError,
    ModelTimeoutError,
    Tool,
)
from agents.runtime import answers, model_calls, turn_rows
from agents.runtime.answers import ask_model
from agents.runtime.model_calls import CallEstimate
from agents.runtime.turn_rows import TurnHandle, TurnSuperseded, current
from memory.assembly import history_summaries
from memory.assembly.history_summaries import (
    BREAKER_FAILURES,
    BREAKER_TURNS,
    Effort,
    Outdated,
    Span,
)
from memory.assembly.prepare import PreparedRequest as View
from memory.assembly.sent_view import span_digest
from memory.context.summary_prompt import (
    SummaryRefused,
    check_summary,
    literals_of,
    missing_literals,
    read_summary,
)
from memory.context.tokens import Counter, counter_for
from memory.context.types import INTENT_ORIGINS, AssemblyRequest, Message
from memory.gamestate.values import clean_text
from memory.models import HistorySummary


@dataclass(frozen=True, slots=True)
class Wanted:
    """A summary that is wanted: its span, its request, and what it is held to.

    ``folded`` are the tokens of the messages that it is to cover, ``replaced`` those
    together with the summary before. ``literals`` are the names and numbers of pins
    and of the newest covered order that the request shows.
    """

    span: Span
    request: list[dict[str, Any]]
    system: str | None
    limit: int
    folded: int
    replaced: int
    literals: tuple[str, ...]
    count: Counter


def wanted(view: View) -> Wanted:
    """What an assembly asks for, with the state of the history that it saw."""
    settings.install()
    asked = view.assembly.summary_wanted
    if asked is None:
        raise ValueError("The assembly asks for no summary.")
    request = view.request
    inside = [m for m in request.messages if asked.first_id <= m.id <= asked.last_id]
    return Wanted(
        span=Span(
            view.subject.mysis_id,
            asked.first_id,
            asked.last_id,
            request.summary.generation if request.summary else 0,
            span_digest(inside),
        ),
        request=asked.request,
        system=view.assembly.system,
        limit=asked.limit,
        folded=asked.folded,
        replaced=asked.replaced,
        literals=_literals(request, inside),
        count=counter_for(request.counter, request.calibration),
    )


def _literals(request: AssemblyRequest, inside: Sequence[Message]) -> tuple[str, ...]:
    """What must survive: of pins and the newest order, what the history says too."""
    orders = [m.content for m in inside if m.origin in INTENT_ORIGINS]
    said = [m.content for m in inside if m.role != "tool"]
    before = [request.summary.text] if request.summary else []
    shown = "\n".join([*before, *said])
    texts = (*request.pins, *orders[-1:])
    found = dict.fromkeys(part for text in texts for part in literals_of(text))
    lost = set(missing_literals(shown, found))
    return tuple(literal for literal in found if literal not in lost)


def check(text: str, asked: Wanted, *, with_literals: bool) -> None:
    """Raise SummaryRefused for a summary that may not stand in for its span."""
    check_summary(
        text,
        count=asked.count,
        limit=asked.limit,
        replaced=asked.replaced,
        literals=asked.literals if with_literals else (),
    )


@transaction.atomic
def commit(
    begun: TurnHandle, asked: Wanted, text: str, effort: Effort
) -> HistorySummary:
    """Store the summary under the Mysis's row lock, and say so.

    Raises VoidedError after a stop, Outdated where the history is another by now.
    """
    mysis = current(begun)
    lost = missing_literals(text, asked.literals)
    row = history_summaries.commit(
        asked.span,
        text=clean_text(text),
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
        "reason": _told(row),
    }
    events.append(Kind.CONTEXT_COMPACTED, mysis_id=mysis.pk, data=data)
    return row


def _told(row: HistorySummary) -> str:
    return (
        f"Messages {row.first_id} to {row.through_id} are summarised: "
        f"{row.tokens_before:,} tokens became {row.tokens_after:,}."
    )


@transaction.atomic
def fail(begun: TurnHandle, asked: Wanted, error: str, effort: Effort) -> None:
    """Remember a failure, and tell the operator what follows from it."""
    mysis = current(begun)
    history_summaries.fail(
        asked.span,
        error=clean_text(error),
        effort=effort,
    )
    after = history_summaries.standing(mysis.pk, turn=begun.number + 1)
    then = (
        f"It failed {BREAKER_FAILURES} times in a row or more: for {BREAKER_TURNS} turns "
        "it is not tried. Until then, what does not fit is left out. Look at the summarization "
        "prompt and at the model."
        if after.breaker_open
        else f"For {after.cooling_turns} turns it is not tried again."
    )
    detail = f"The history could not be summarised: {error} {then}"
    events.append(Kind.ERROR, mysis_id=mysis.pk, data={"detail": clean_text(detail)})


# SECTION The making of a summary in a turn: asked, checked, and committed or refused.
#
# Nothing is changed until a summary is good: a refusal, a timeout, a stop or a crash
# leaves the log and its summaries as they were (I23). At most two attempts are made in
# a turn, then the turn goes on without (I24).

ATTEMPTS = 2
SECONDS = 60.0
#: Tokens of an answer beside its summary: tags, and thoughts before them.
MARGIN = 1_000
#: With these a provider refuses a request that it has no room for.
TOO_LONG = (400, 413, 422)
logger = logging.getLogger(__name__)

CORRECTION = "\n\nYour first answer was refused: {reason} Answer again, and mend that."


@dataclass(slots=True)
class SummaryJob:
    """How far the making of one summary has come."""

    begun: TurnHandle
    endpoint: Endpoint
    tools: Sequence[Tool]
    wanted: Wanted
    effort: Effort
    failure: str = ""
    correction: str = ""
    done: bool = False
    hopeless: bool = False


async def compact(
    begun: TurnHandle, endpoint: Endpoint, tools: Sequence[Tool], view: View
) -> int:
    """Make the summary that a view asks for, and keep it, or keep why there is none.

    Gives how many requests were made for it.

    Raises VoidedError when the Mysis was stopped meanwhile, BudgetSpentError where a
    budget has no room, and ModelError where the provider is out of order: then the
    turn's own call would fail no less.
    """
    await run_in_db(turn_rows.doing, begun, "summarising")
    making = SummaryJob(
        begun,
        endpoint,
        tools,
        await run_in_db(wanted, view),
        Effort(begun.number, begun.model),
    )
    try:
        await _make(making)
    except (ModelError, TurnSuperseded, BudgetSpentError):
        raise
    except Exception as error:
        # Whatever it is, it must not come back with every turn.
        if not isinstance(error, Outdated):
            logger.exception("A summary failed", exc_info=error)
        making.failure = str(error) or type(error).__name__
    if not making.done:
        failed = (begun, making.wanted, making.failure, making.effort)
        await run_in_db(fail, *failed)
    return making.effort.attempts


async def _make(making: SummaryJob) -> None:
    while making.effort.attempts < ATTEMPTS and not making.hopeless:
        text = await _attempt(making)
        if text:
            made = (making.begun, making.wanted, text, making.effort)
            await run_in_db(commit, *made)
            making.done = True
            return


async def _attempt(making: SummaryJob) -> str:
    """One request; empty, with a reason noted, where it gave no good summary."""
    making.effort.attempts += 1
    last = making.effort.attempts >= ATTEMPTS
    try:
        text = _read(await _ask(making))
        check(text, making.wanted, with_literals=not last)
        return text
    except SummaryRefused as error:
        making.failure = str(error)
        making.correction = CORRECTION.format(reason=error)
    except ModelError as error:
        if not _was_too_long(error):
            raise
        making.failure = str(error)
        if not last:
            await _fold_less(making)
    return ""


def _was_too_long(error: ModelError) -> bool:
    too_slow = isinstance(error, ModelTimeoutError)
    return too_slow or is_overflow(error) or error.status in TOO_LONG


async def _fold_less(making: SummaryJob) -> None:
    """Ask for the older half only: the request was too long, or took too long.

    What is left out of it stays in the view, so no order is lost. Where less is not
    worth a summary, the same request is not made again.
    """
    half = max(1, making.wanted.folded // 2)
    view = await run_in_db(model_calls.assemble_next, making.begun, fold_tokens=half)
    if view.assembly.summary_wanted:
        making.wanted = await run_in_db(wanted, view)
    else:
        making.hopeless = True


async def _ask(making: SummaryJob) -> Completion:
    wanted = making.wanted
    request = _request(wanted, making.correction)
    wish = CallEstimate(
        making.endpoint,
        making.effort.attempts,
        wanted.count(json.dumps(request)),
        wanted.limit,
        summary=True,
    )
    opened = await run_in_db(model_calls.open_summary, making.begun, wish)
    answer, latency = await ask_model(
        making.endpoint,
        opened,
        messages=request,
        system=wanted.system,
        tools=making.tools,
        settings=_settings(making.begun.model_settings, wanted.limit),
    )
    making.effort.add(
        tokens=(answer.usage.input, answer.usage.output, answer.usage.cached),
        cost=answer.cost,
        latency_ms=latency,
    )
    await run_in_db(answers.record_usage, opened, answer, latency)
    return answer


def _settings(own: Mapping[str, Any], limit: int) -> dict[str, Any]:
    """The Mysis's own settings; a short limit of its answers must not cut a summary."""
    settings = {**own, "timeout": SECONDS}
    most = own.get("max_tokens")
    if isinstance(most, int):
        settings["max_tokens"] = max(most, limit + MARGIN)
    return settings


def _request(wanted: Wanted, correction: str) -> list[dict[str, Any]]:
    """The request; after a refusal with the reason at its very end."""
    if not correction:
        return wanted.request
    *before, prompt = wanted.request
    content = prompt["content"]
    if isinstance(content, str):
        return [*before, {**prompt, "content": content + correction}]
    block = {"type": "text", "text": correction.strip()}
    return [*before, {**prompt, "content": [*content, block]}]


def _read(answer: Completion) -> str:
    if answer.tool_calls:
        raise SummaryRefused("The answer calls a tool in place of a summary.")
    return read_summary(answer.text)
