"""The database side of a turn: each step one transaction, each under the row lock.

A turn belongs to one epoch of its Mysis. After a stop the epoch is another, and
every step that would go on raises :class:`VoidedError`; what has already
happened in the game is recorded all the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from django.db import transaction
from django.db.models import Exists, F, QuerySet
from django.utils import timezone

from agents import context, events
from agents.actions import memory_line
from agents.events import Kind
from agents.llm.types import Completion
from agents.models import ModelCall, Mysis, Turn
from agents.tools.redact import clean_value
from agents.tools.snapshot import doubt
from agents.tools.types import ToolResult
from memory import calibration, sent
from memory.context.tokens import estimate
from memory.context.types import Assembly
from memory.gamestate.parse import clean_text, parse_text
from memory.models import Memory, Origin, Role
from memory.preview import Prepared as View
from memory.preview import prepare
from memory.state import tick_of

INTERRUPTED = "Error: interrupted: outcome unknown. Check the state before repeating."
TOO_MANY = (
    "Error: too_many_calls: not executed. At most {most} calls are taken from one "
    "answer: make the rest in your next one."
)
LONGEST_ID = 200
MOST_CALLS = 32


class VoidedError(Exception):
    """The Mysis was stopped, started anew or deleted: this turn must end."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A turn that has begun."""

    turn_id: int
    mysis_id: int
    epoch: int
    number: int
    trigger: str
    model: str
    model_settings: dict[str, Any]
    max_iterations: int


@dataclass(frozen=True, slots=True)
class Prepared:
    """One call that is ready to be made.

    ``seen`` is the newest row it shows, ``estimated`` what it costs by our count.
    """

    call_id: int
    assembly: Assembly
    seen: int
    estimated: int


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A tool call that is stored as pending, and the row its result goes to."""

    memory_id: int
    name: str
    arguments: str


@transaction.atomic
def begin(mysis_id: int, *, job_id: int, trigger: str) -> Begun | None:
    """Begin a turn, or None where this job is void or the Mysis does not run."""
    mysis = Mysis.objects.select_for_update(of=("self",)).filter(pk=mysis_id).first()
    if mysis is None or mysis.next_job != job_id:
        return None
    if mysis.state != Mysis.State.RUNNING:
        return None
    close_open_turns(mysis, outcome=Turn.Outcome.INTERRUPTED)
    mysis.turn_count += 1
    mysis.next_job = None
    mysis.wake_at = None
    mysis.activity = "thinking"
    mysis.save(update_fields=["turn_count", "next_job", "wake_at", "activity"])
    turn = Turn.objects.create(
        mysis=mysis,
        number=mysis.turn_count,
        epoch=mysis.epoch,
        job_id=job_id,
        trigger=trigger,
    )
    line = {"turn": turn.pk, "number": turn.number, "trigger": trigger}
    events.append(Kind.TURN_STARTED, mysis_id=mysis.pk, data=line)
    return Begun(
        turn_id=turn.pk,
        mysis_id=mysis.pk,
        epoch=mysis.epoch,
        number=turn.number,
        trigger=trigger,
        model=mysis.model,
        model_settings=mysis.model_settings,
        max_iterations=mysis.max_iterations,
    )


def look(begun: Begun, *, fold_tokens: int = 0) -> View:
    """Assemble what the next call would be sent; reads only.

    It is done before the row is locked, so that a stop never waits for it.
    ``fold_tokens`` bounds the history of which a summary may be asked for.
    """
    mysis = going_on(begun).first()
    if mysis is None:
        raise VoidedError
    subject = context.subject_of(mysis)
    if fold_tokens:
        bounded = replace(subject.compaction, fold_tokens=fold_tokens)
        subject = replace(subject, compaction=bounded)
    return prepare(subject)


@transaction.atomic
def keep(begun: Begun, number: int, prepared: View) -> Prepared:
    """Keep exactly what the next call is sent, before it is made."""
    mysis = current(begun)
    call = ModelCall.objects.create(
        turn_id=begun.turn_id, number=number, model=begun.model
    )
    if prepared.assembly.messages:
        sent.record(call_id=call.pk, prepared=prepared)
    Turn.objects.filter(pk=begun.turn_id).update(iterations=number)
    _activity(mysis, "thinking")
    rows = prepared.request.messages
    return Prepared(
        call.pk,
        prepared.assembly,
        rows[-1].id if rows else 0,
        sum(prepared.assembly.stats["tokens_by_category"].values()),
    )


def record_answer(
    begun: Begun, prepared: Prepared, answer: Completion, latency_ms: int
) -> list[PendingCall]:
    """Store the answer, and its calls as pending before any of them runs.

    What was paid is recorded even where the turn has become void meanwhile.
    """
    _record_usage(begun, prepared.call_id, answer, latency_ms)
    calibration.learn(
        begun.model, estimated=prepared.estimated, reported=answer.usage.input
    )
    return _store_answer(begun, answer)


@transaction.atomic
def _store_answer(begun: Begun, answer: Completion) -> list[PendingCall]:
    mysis = current(begun)
    if not (answer.text.strip() or answer.tool_calls or answer.reasoning.strip()):
        return []
    tick = tick_of(mysis.account.username if mysis.account else None)
    calls = [_named(call.id, call.name, call.arguments) for call in answer.tool_calls]
    speech = Memory.objects.create(
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
    events.append(Kind.MEMORY_ADDED, mysis_id=mysis.pk, data=memory_line(speech))
    pending = [_placeholder(mysis, begun, call, tick) for call in calls[:MOST_CALLS]]
    for call in calls[MOST_CALLS:]:
        _refuse(mysis, begun, call, tick)
    _touch(mysis, f"calling {pending[0].name}" if pending else "", tick)
    return pending


@transaction.atomic
def record_result(begun: Begun, call: PendingCall, result: ToolResult) -> None:
    """Put a result in its place. What happened is kept even after a stop."""
    row = Memory.objects.filter(pk=call.memory_id, pending=True).first()
    if row is None:
        return
    row.content = clean_text(result.text)
    row.is_error = result.is_error
    row.pending = False
    row.tick = result.tick if result.tick is not None else row.tick
    row.tokens = estimate(row.content)
    row.save(update_fields=["content", "is_error", "pending", "tick", "tokens"])
    events.append(Kind.MEMORY_ADDED, mysis_id=begun.mysis_id, data=memory_line(row))
    Mysis.objects.filter(pk=begun.mysis_id).update(
        last_memory_at=timezone.now(), tick=F("tick") if row.tick is None else row.tick
    )


@transaction.atomic
def doing(begun: Begun, activity: str) -> None:
    """Say what the Mysis does now; raises VoidedError when it may not go on."""
    _activity(current(begun), activity)


def current(begun: Begun) -> Mysis:
    """The locked row, if this turn may still go on. Raises VoidedError."""
    mysis = going_on(begun).select_for_update(of=("self",)).first()
    if mysis is None:
        raise VoidedError
    return mysis


def going_on(begun: Begun) -> QuerySet[Mysis]:
    """The Mysis while this turn is its open one: not stopped, not taken up."""
    open_turn = Turn.objects.filter(pk=begun.turn_id, outcome__isnull=True)
    return Mysis.objects.select_related("prompt", "policy", "account").filter(
        Exists(open_turn),
        pk=begun.mysis_id,
        epoch=begun.epoch,
        state=Mysis.State.RUNNING,
    )


def close_open_turns(
    mysis: Mysis, *, outcome: Turn.Outcome, turn_id: int | None = None
) -> None:
    """End turns that nobody will end, and answer the calls they left open."""
    for turn in mysis.turns.filter(outcome__isnull=True):
        if turn_id is None or turn.pk == turn_id:
            finish_turn(turn, outcome=outcome)
    answer_open_calls(mysis)


def answer_open_calls(mysis: Mysis) -> None:
    """Give every pending call the result that its outcome is unknown.

    What such an action may have changed is in doubt from now on.
    """
    for row in Memory.objects.filter(mysis=mysis, pending=True).order_by("pk"):
        if mysis.account is not None:
            doubt(
                mysis_id=mysis.pk,
                username=mysis.account.username,
                tool=row.tool_name,
                args=row.args,
            )
        row.content = INTERRUPTED
        row.is_error = True
        row.pending = False
        row.save(update_fields=["content", "is_error", "pending"])
        events.append(Kind.MEMORY_ADDED, mysis_id=mysis.pk, data=memory_line(row))


def finish_turn(turn: Turn, *, outcome: Turn.Outcome, error: str = "") -> None:
    """Write the outcome and say so; the caller holds the Mysis's row."""
    turn.outcome = outcome
    turn.error = clean_text(error)
    turn.finished_at = timezone.now()
    turn.save(update_fields=["outcome", "error", "finished_at"])
    data = {
        "turn": turn.pk,
        "number": turn.number,
        "outcome": str(outcome),
        "iterations": turn.iterations,
        "error": error,
    }
    events.append(Kind.TURN_FINISHED, mysis_id=turn.mysis_id, data=data)


@transaction.atomic
def _record_usage(
    begun: Begun, call_id: int, answer: Completion, latency_ms: int
) -> None:
    ModelCall.objects.filter(pk=call_id).update(
        input_tokens=answer.usage.input,
        output_tokens=answer.usage.output,
        cached_tokens=answer.usage.cached,
        cost=answer.cost,
        latency_ms=latency_ms,
        finish_reason=clean_text(answer.finish_reason)[:50],
    )
    spend(begun, answer, latency_ms)


@transaction.atomic
def spend(begun: Begun, answer: Completion, latency_ms: int) -> None:
    """Add what an answer cost to the turn and to its Mysis."""
    tokens = {
        "input_tokens": F("input_tokens") + answer.usage.input,
        "output_tokens": F("output_tokens") + answer.usage.output,
        "cost": F("cost") + answer.cost,
    }
    Turn.objects.filter(pk=begun.turn_id).update(
        **tokens,
        cached_tokens=F("cached_tokens") + answer.usage.cached,
        latency_ms=F("latency_ms") + latency_ms,
    )
    Mysis.objects.filter(pk=begun.mysis_id).update(**tokens)


def _named(raw_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {
        "id": clean_text(raw_id)[:LONGEST_ID] or f"call_{uuid4().hex[:12]}",
        "type": "function",
        "function": {"name": clean_text(name), "arguments": clean_text(arguments)},
    }


def _placeholder(
    mysis: Mysis, begun: Begun, call: dict[str, Any], tick: int | None
) -> PendingCall:
    row = _result_row(mysis, begun, call, tick)
    row.pending = True
    row.save()
    return PendingCall(row.pk, call["function"]["name"], call["function"]["arguments"])


def _refuse(mysis: Mysis, begun: Begun, call: dict[str, Any], tick: int | None) -> None:
    row = _result_row(mysis, begun, call, tick)
    row.content = TOO_MANY.format(most=MOST_CALLS)
    row.is_error = True
    row.save()


def _result_row(
    mysis: Mysis, begun: Begun, call: dict[str, Any], tick: int | None
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


def _activity(mysis: Mysis, activity: str) -> None:
    mysis.activity = activity[:200]
    mysis.save(update_fields=["activity"])


def _touch(mysis: Mysis, activity: str, tick: int | None) -> None:
    mysis.activity = activity[:200]
    mysis.last_memory_at = timezone.now()
    mysis.tick = tick if tick is not None else mysis.tick
    mysis.save(update_fields=["activity", "last_memory_at", "tick"])
