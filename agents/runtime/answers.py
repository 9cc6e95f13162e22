"""What a model answered and what its tools answered, as rows of the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from django.db import DatabaseError, transaction
from django.db.models import Q
from django.utils import timezone

from agents import budgets, events, usage
from agents.actions import memory_line
from agents.budgets import NOTHING, Amount
from agents.db import run_in_db
from agents.events import Kind
from agents.llm.complete import complete
from agents.llm.model_types import ChatMessage, Completion, Endpoint, ModelError, Tool
from agents.models import Mysis
from agents.runtime.model_calls import Opened, ReadyCall
from agents.runtime.turn_rows import INTERRUPTED, TurnHandle, TurnSuperseded, current
from agents.tools.request import ToolResult
from agents.usage import Spent
from memory import calibration
from memory.context.tokens import estimate
from memory.gamestate.values import clean_text, parse_text
from memory.models import Memory, Origin, Role
from memory.redaction import clean_value
from memory.snapshots.reads import tick_of

TOO_MANY = (
    "Error: too_many_calls: not executed. At most {most} calls are taken from one "
    "answer: make the rest in your next one."
)
LONGEST_ID = 200
MOST_CALLS = 32

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A tool call that is stored as pending, and the row its result goes to."""

    memory_id: int
    name: str
    arguments: str


def record_answer(
    begun: TurnHandle, prepared: ReadyCall, answer: Completion, latency_ms: int
) -> list[PendingCall]:
    """Store the answer, and its calls as pending before any of them runs.

    What was paid is recorded even where the turn has become void meanwhile.
    """
    with transaction.atomic():
        record_usage(prepared.opened, answer, latency_ms)
        pending = _stored(begun, answer)
    if pending is None:
        raise TurnSuperseded
    _learn(begun, prepared, answer)
    return pending


def _stored(begun: TurnHandle, answer: Completion) -> list[PendingCall] | None:
    """The calls of an answer that is stored; None where the turn is void by now."""
    try:
        return _store_answer(begun, answer)
    except TurnSuperseded:
        return None


@transaction.atomic(savepoint=False)
def record_usage(opened: Opened, answer: Completion, latency_ms: int) -> None:
    """Write what an answer cost, and count it in the budgets as it came out."""
    spent = Spent(
        input=answer.usage.input,
        output=answer.usage.output,
        cached=answer.usage.cached,
        cost=answer.cost,
        latency_ms=latency_ms,
        finish_reason=clean_text(answer.finish_reason)[:50],
    )
    usage.record(opened.place, spent)
    budgets.settle(opened.taken, Amount(spent.input + spent.output, spent.cost))


@transaction.atomic
def record_refusal(opened: Opened, error: ModelError, latency_ms: int) -> None:
    """Write down why a call got no answer, beside what it was sent.

    Budgets get back what they lent where it is certain that nothing was charged.
    """
    spent = Spent(latency_ms=latency_ms, error=clean_text(str(error)))
    usage.record(opened.place, spent)
    if error.surely_free:
        budgets.settle(opened.taken, NOTHING)


def _learn(begun: TurnHandle, prepared: ReadyCall, answer: Completion) -> None:
    """Let the estimate learn; an answer that was paid for is never lost to that.

    Only after the answer is safe. In its transaction a database that is lost here would
    take the answer back without a word, and its calls would be made all the same.
    """
    try:
        calibration.learn(
            begun.model, estimated=prepared.estimated, reported=answer.usage.input
        )
    except DatabaseError:
        logger.exception("The token estimate could not learn from a call")


def _store_answer(begun: TurnHandle, answer: Completion) -> list[PendingCall]:
    # In the caller's transaction: nothing is written before the turn is known to count.
    mysis = current(begun)
    if not (answer.text.strip() or answer.tool_calls or answer.reasoning.strip()):
        return []
    tick = tick_of(mysis.account.username if mysis.account else None)
    calls = [_named(call.id, call.name, call.arguments) for call in answer.tool_calls]
    speech = Memory(
        mysis=mysis,
        turn_id=begun.turn_id,
        role=Role.ASSISTANT,
        origin=Origin.AGENT,
        content=clean_text(answer.text),
        reasoning=clean_text(answer.reasoning),
        signature=clean_text(answer.signature or ""),
        tool_calls=calls,
        tick=tick,
        tokens=answer.usage.output or estimate(answer.text),
    )
    results = [_result_row(mysis, begun, call, tick) for call in calls]
    for row in results[:MOST_CALLS]:
        row.pending = True
    for row in results[MOST_CALLS:]:
        row.content, row.is_error = TOO_MANY.format(most=MOST_CALLS), True
    Memory.objects.bulk_create([speech, *results])
    events.append(Kind.MEMORY_ADDED, mysis_id=mysis.pk, data=memory_line(speech))
    pending = [_pending(row, call) for row, call in zip(results, calls, strict=True)]
    _touch(mysis, f"calling {pending[0].name}" if pending else "", tick)
    return pending[:MOST_CALLS]


@transaction.atomic
def record_result(begun: TurnHandle, call: PendingCall, result: ToolResult) -> None:
    """Put a result in its place. What happened is kept even after a stop.

    A late one, of a worker that was given up, takes the place of "outcome unknown".
    """
    tick = {} if result.tick is None else {"tick": result.tick}
    # The row of the Mysis first, as whoever ends a turn: it orders the two, and
    # neither waits for the other's lock of the call.
    Mysis.objects.filter(pk=begun.mysis_id).update(
        last_memory_at=timezone.now(), **tick
    )
    text = clean_text(result.text)
    unanswered = Q(pending=True) | Q(content=INTERRUPTED, is_error=True)
    if not Memory.objects.filter(unanswered, pk=call.memory_id).update(
        content=text,
        is_error=result.is_error,
        pending=False,
        tokens=estimate(text),
        **tick,
    ):
        return
    row = Memory(pk=call.memory_id, role=Role.TOOL, origin=Origin.TOOL)
    events.append(Kind.MEMORY_ADDED, mysis_id=begun.mysis_id, data=memory_line(row))


def _named(raw_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {
        "id": clean_text(raw_id)[:LONGEST_ID] or f"call_{uuid4().hex[:12]}",
        "type": "function",
        "function": {"name": clean_text(name), "arguments": clean_text(arguments)},
    }


def _pending(row: Memory, call: dict[str, Any]) -> PendingCall:
    function = call["function"]
    return PendingCall(row.pk, function["name"], function["arguments"])


def _result_row(
    mysis: Mysis, begun: TurnHandle, call: dict[str, Any], tick: int | None
) -> Memory:
    function = call["function"]
    arguments = parse_text(function["arguments"])
    return Memory(
        mysis=mysis,
        turn_id=begun.turn_id,
        role=Role.TOOL,
        origin=Origin.TOOL,
        tool_call_id=call["id"],
        tool_name=function["name"][:200],
        args=clean_value(arguments) if isinstance(arguments, dict) else {},
        tick=tick,
    )


def _touch(mysis: Mysis, activity: str, tick: int | None) -> None:
    mysis.activity = activity[:200]
    mysis.last_memory_at = timezone.now()
    mysis.tick = tick if tick is not None else mysis.tick
    mysis.save(update_fields=["activity", "last_memory_at", "tick"])


# SECTION One request to a model, with its time, and with a record of its refusal.


async def ask_model(
    endpoint: Endpoint,
    opened: Opened,
    *,
    messages: Sequence[ChatMessage],
    system: str | None,
    tools: Sequence[Tool],
    settings: dict[str, Any],
) -> tuple[Completion, int]:
    """The answer and its milliseconds; raises ModelError, written at its call."""
    started = time.monotonic()
    try:
        answer = await complete(
            endpoint, messages=messages, system=system, tools=tools, settings=settings
        )
    except ModelError as error:
        await run_in_db(record_refusal, opened, error, _since(started))
        raise
    return answer, _since(started)


def _since(started: float) -> int:
    return round((time.monotonic() - started) * 1000)
