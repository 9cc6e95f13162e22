"""Ask the model, and store what it and its tools answered as rows of the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from django.db import DatabaseError, transaction
from django.utils import timezone

from agents import budgets, db, events, statements, usage
from agents.actions.base import describe_memory
from agents.budgets import NOTHING, Amount
from agents.db import run_in_db
from agents.llm.complete import complete
from agents.llm.model_types import MOST_CALLS, Completion, CompletionRequest, ModelError
from agents.models import Event
from agents.runtime.model_calls import Opened, ReadyCall
from agents.runtime.spans import tell_answer, trace_model_call
from agents.runtime.turn_rows import TurnHandle, TurnSuperseded
from agents.tools.game_calls import take_up_calls
from agents.tools.request import INTERRUPTED, Outcome
from agents.usage import CallCost, Clock
from memory import calibration
from memory.context.tokens import estimate_tokens
from memory.context.types import ToolCall
from memory.game_calls import WRAPPER, resolve_call_text
from memory.gamestate.values import make_storable, parse_text, repair_text
from memory.models import Memory, Origin, Role, build_insert, fetch_rows, list_values
from memory.models.vectors import describe_calls
from memory.redaction import hide_secrets, hide_secrets_in_value
from memory.snapshots.reads import compute_present_tick

LONGEST_ID = 200
# What the model reads of calls beyond the limit, after the result of the last one.
_DROPPED = (
    f"[Zoea took the first {MOST_CALLS} calls of your answer. {{dropped:,}} more were "
    "dropped, none of them executed: make those that are still needed in your next one.]"
)

# The code of an error about numbers of tokens that cannot be true.
USAGE = "usage"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A tool call that is stored as pending, and the row its result goes to.

    ``id`` is the one that its answer names it by, ``note`` what stands after its result.
    """

    memory_id: int
    name: str
    arguments: str
    id: str = ""
    note: str = ""


async def ask_model(
    request: CompletionRequest, opened: Opened
) -> tuple[Completion, int]:
    """Return the answer and its milliseconds; a ModelError is recorded and raised."""
    started = time.monotonic()
    try:
        with trace_model_call(request, opened.place) as span:
            answer = await complete(request)
            tell_answer(span, answer)
    except ModelError as error:
        await run_in_db(record_refusal, opened, error, _milliseconds_since(started))
        raise
    return answer, _milliseconds_since(started)


def record_answer(
    handle: TurnHandle, prepared: ReadyCall, answer: Completion, latency_ms: int
) -> list[PendingCall]:
    """Store the answer, and its calls as pending before any of them runs.

    What it calls by way of `game` is from here on a call of that tool. What was paid is recorded even where the turn was superseded meanwhile.
    """
    taken = take_up_calls(answer)
    pending = store_answer(handle, prepared.opened, taken, latency_ms)
    if pending is None:
        raise TurnSuperseded
    if handle.reads.last is not None:
        handle.reads.last.tokens = answer.usage.input
        handle.reads.last.cached = answer.usage.cached
    # Only after the answer is safe: a database lost in its transaction would take the
    # answer back without a word, and its calls would be made all the same.
    try:
        calibration.learn_factor(
            handle.model,
            estimated=prepared.estimated,
            reported=0 if answer.estimated else answer.usage.input,
            known=prepared.learnt,
        )
    except DatabaseError:
        logger.exception("The token estimate could not learn from a call")
    return pending


@transaction.atomic
def store_answer(
    handle: TurnHandle, opened: Opened, answer: Completion, latency_ms: int
) -> list[PendingCall] | None:
    """Store what was paid, and the answer; None, without it, of a superseded turn."""
    clock = record_usage(opened, answer, latency_ms)
    if clock is None:
        return None
    rows = _build_rows(handle, compute_present_tick(*clock), answer)
    pending = _store_rows(rows, answer.tool_calls)
    if answer.dropped:
        pending[-1] = replace(
            pending[-1], note=f"\n{_DROPPED.format(dropped=answer.dropped)}"
        )
    events.append_all(_describe_doubts(handle, answer))
    return pending


def _describe_doubts(handle: TurnHandle, answer: Completion) -> list[events.Line]:
    """What the operator reads of an answer that was not taken as it came."""
    found = []
    if answer.dropped:
        made = len(answer.tool_calls) + answer.dropped
        words = (
            f"The model made {made:,} calls in one answer: the first "
            f"{len(answer.tool_calls)} were taken, {answer.dropped:,} dropped."
        )
        found.append(
            events.describe_error(handle.mysis_id, words, code="too_many_calls")
        )
    if answer.estimated and not _is_noted(handle):
        words = (
            f"The provider of {handle.model} told numbers of tokens that cannot be true. "
            "They are estimated, as is the cost, whenever it does so again."
        )
        found.append(
            events.describe_error(
                handle.mysis_id, words, code=USAGE, model=handle.model
            )
        )
    return found


def _is_noted(handle: TurnHandle) -> bool:
    """Whether the operator knows already that this Mysis's model is counted by estimate."""
    noted = Event.objects.filter(mysis_id=handle.mysis_id, kind=events.Kind.ERROR)
    return noted.filter(data__code=USAGE, data__model=handle.model).exists()


@transaction.atomic(savepoint=False)
def record_usage(opened: Opened, answer: Completion, latency_ms: int) -> Clock | None:
    """Write what an answer cost, as `usage.record_cost`, and settle the budgets."""
    spent = CallCost(
        input_tokens=answer.usage.input,
        output_tokens=answer.usage.output,
        cached_tokens=answer.usage.cached,
        cost=answer.cost,
        latency_ms=latency_ms,
        finish_reason=repair_text(answer.finish_reason)[:50],
    )
    clock = usage.record_cost(opened.place, spent)
    used = Amount(answer.usage.input + answer.usage.output, spent.cost)
    budgets.settle_budgets(opened.taken, used)
    return clock


@transaction.atomic
def record_refusal(opened: Opened, error: ModelError, latency_ms: int) -> None:
    """Write why a call got no answer.

    Budgets get back what they lent where it is certain that nothing was charged.
    """
    spent = CallCost(latency_ms=latency_ms, error=repair_text(str(error)))
    usage.record_cost(opened.place, spent)
    if error.surely_free:
        budgets.settle_budgets(opened.taken, NOTHING)


@transaction.atomic
def record_result(handle: TurnHandle, call: PendingCall, result: Outcome) -> None:
    """Store a result by itself."""
    events.append_all(write_result(handle, call, result))


def write_result(
    handle: TurnHandle, call: PendingCall, result: Outcome
) -> list[events.Line]:
    """Store a result in the caller's transaction, also after a stop; its events.

    A late one, of a worker that was given up, replaces "outcome unknown".
    """
    text = result.kept_text + call.note
    values = {
        "mysis": handle.mysis_id,
        "memory": call.memory_id,
        "now": timezone.now(),
        "tick": result.tick,
        "content": text,
        "is_error": result.is_error,
        "tokens": estimate_tokens(text),
        "unknown": INTERRUPTED,
    }
    if not db.fetch_row(statements.STORE_RESULT, values, prepare=True):
        return []
    row = Memory(
        pk=call.memory_id, mysis_id=handle.mysis_id, role=Role.TOOL, origin=Origin.TOOL
    )
    return [describe_memory(row)]


def _build_rows(
    handle: TurnHandle, tick: int | None, answer: Completion
) -> list[Memory]:
    """The rows of an answer and of the results of its calls; none of an empty answer."""
    if not (answer.text.strip() or answer.tool_calls or answer.reasoning.strip()):
        return []
    now = timezone.now()
    calls = [_stored_call(call) for call in answer.tool_calls]
    speech = Memory(
        mysis_id=handle.mysis_id,
        turn_id=handle.turn_id,
        role=Role.ASSISTANT,
        origin=Origin.AGENT,
        content=hide_secrets(repair_text(answer.text)),
        reasoning=_clean_reasoning(answer),
        signature=repair_text(answer.signature or ""),
        tool_calls=calls,
        calls_text=describe_calls(calls),
        tick=tick,
        tokens=answer.usage.output or estimate_tokens(answer.text),
        created_at=now,
    )
    results = [_result_row(handle, call, tick) for call in calls]
    for row in results:
        row.created_at, row.pending = now, True
    return [speech, *results]


def _store_rows(rows: Sequence[Memory], calls: Sequence[ToolCall]) -> list[PendingCall]:
    """Store an answer with its event; the calls to run now, as the model made them.

    What is stored of them may be masked, which the game is not to get.
    """
    if not rows:
        return []
    speech, *results = rows
    activity = f"calling {results[0].tool_name}"[:200] if results else ""
    values = [
        *(value for row in rows for value in list_values(row)),
        *(activity, speech.tick, speech.created_at, speech.mysis_id),
        *(speech.mysis_id, speech.role, speech.origin),
    ]
    sql = statements.STORE_ANSWER.format(insert=build_insert(Memory, len(rows)))
    ids = fetch_rows(sql, values, prepare=True)
    for row, (pk,) in zip(rows, ids, strict=True):
        row.pk = pk
    events.send_hint()
    return [
        PendingCall(
            row.pk,
            repair_text(call.name),
            repair_text(call.arguments),
            row.tool_call_id,
        )
        for row, call in zip(results, calls, strict=True)
    ]


def _clean_reasoning(answer: Completion) -> str:
    """What a model thought; what its provider has signed must come back as it was."""
    thought = repair_text(answer.reasoning)
    return thought if answer.signature else hide_secrets(thought)


def _stored_call(call: ToolCall) -> dict[str, Any]:
    way = {"via": call.via} if call.via else {}
    if call.original:
        way["original"] = hide_secrets(repair_text(call.original))
    return way | {
        "id": repair_text(call.id)[:LONGEST_ID] or f"call_{uuid4().hex[:12]}",
        "type": "function",
        "function": {
            "name": repair_text(call.name),
            "arguments": hide_secrets(repair_text(call.arguments)),
        },
    }


def _result_row(handle: TurnHandle, call: dict[str, Any], tick: int | None) -> Memory:
    function = call["function"]
    called = resolve_call_text(function["name"], function["arguments"])
    resolved = called.grouped or function["name"] == WRAPPER
    given = parse_text(function["arguments"])
    given = make_storable(called.arguments) if resolved else given
    return Memory(
        mysis_id=handle.mysis_id,
        turn_id=handle.turn_id,
        role=Role.TOOL,
        origin=Origin.TOOL,
        tool_call_id=call["id"],
        tool_name=called.name[:200],
        args=hide_secrets_in_value(given) if isinstance(given, Mapping) else {},
        calls_text="",
        tick=tick,
    )


def _milliseconds_since(started: float) -> int:
    return round((time.monotonic() - started) * 1000)
