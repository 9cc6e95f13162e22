"""The database side of a turn: each step one transaction, each under the row lock.

A turn belongs to one epoch of its Mysis. After a stop the epoch is another, and
every step that would go on raises :class:`VoidedError`; what has already
happened in the game is recorded all the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from agents import context, events
from agents.actions import memory_line
from agents.events import Kind
from agents.llm.types import Completion
from agents.models import ModelCall, Mysis, Turn
from agents.tools.types import ToolResult
from memory import sent
from memory.context.tokens import estimate
from memory.context.types import Assembly
from memory.models import Memory, Origin, Role
from memory.preview import prepare
from memory.state import tick_of

INTERRUPTED = "Error: interrupted: outcome unknown. Check the state before repeating."
LONGEST_ID = 200


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
    """One call that is ready to be made; ``seen`` is the newest row it shows."""

    call_id: int
    assembly: Assembly
    seen: int


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


@transaction.atomic
def prepare_call(begun: Begun, number: int) -> Prepared:
    """Assemble the next call and keep exactly what it is sent."""
    mysis = current(begun)
    prepared = prepare(context.subject_of(mysis))
    call = ModelCall.objects.create(
        turn_id=begun.turn_id, number=number, model=begun.model
    )
    if prepared.assembly.messages:
        sent.record(call_id=call.pk, prepared=prepared)
    Turn.objects.filter(pk=begun.turn_id).update(iterations=number)
    _activity(mysis, "thinking")
    rows = prepared.request.messages
    return Prepared(call.pk, prepared.assembly, rows[-1].id if rows else 0)


@transaction.atomic
def record_answer(
    begun: Begun, call_id: int, answer: Completion, latency_ms: int
) -> list[PendingCall]:
    """Store the answer, and its calls as pending before any of them runs."""
    _record_usage(begun, call_id, answer, latency_ms)
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
        content=_text(answer.text),
        reasoning=_text(answer.reasoning),
        signature=answer.signature or "",
        tool_calls=calls,
        tick=tick,
        tokens=answer.usage.output or estimate(answer.text),
    )
    events.append(Kind.MEMORY_ADDED, mysis_id=mysis.pk, data=memory_line(speech))
    pending = [_placeholder(mysis, begun, call, tick) for call in calls]
    _touch(mysis, f"calling {pending[0].name}" if pending else "", tick)
    return pending


@transaction.atomic
def record_result(begun: Begun, call: PendingCall, result: ToolResult) -> None:
    """Put a result in its place. What happened is kept even after a stop."""
    row = Memory.objects.filter(pk=call.memory_id, pending=True).first()
    if row is None:
        return
    row.content = _text(result.text)
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
    mysis = (
        Mysis.objects.select_for_update(of=("self",))
        .select_related("prompt", "policy", "account")
        .filter(pk=begun.mysis_id, epoch=begun.epoch, state=Mysis.State.RUNNING)
        .first()
    )
    if mysis is None:
        raise VoidedError
    return mysis


def close_open_turns(
    mysis: Mysis, *, outcome: Turn.Outcome, turn_id: int | None = None
) -> None:
    """End turns that nobody will end, and answer the calls they left open."""
    for turn in mysis.turns.filter(outcome__isnull=True):
        if turn_id is None or turn.pk == turn_id:
            finish_turn(turn, outcome=outcome)
    answer_open_calls(mysis)


def answer_open_calls(mysis: Mysis) -> None:
    """Give every pending call the result that its outcome is unknown."""
    for row in Memory.objects.filter(mysis=mysis, pending=True).order_by("pk"):
        row.content = INTERRUPTED
        row.is_error = True
        row.pending = False
        row.save(update_fields=["content", "is_error", "pending"])
        events.append(Kind.MEMORY_ADDED, mysis_id=mysis.pk, data=memory_line(row))


def finish_turn(turn: Turn, *, outcome: Turn.Outcome, error: str = "") -> None:
    """Write the outcome and say so; the caller holds the Mysis's row."""
    turn.outcome = outcome
    turn.error = error
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


def _record_usage(
    begun: Begun, call_id: int, answer: Completion, latency_ms: int
) -> None:
    spent: dict[str, Any] = {
        "input_tokens": answer.usage.input,
        "output_tokens": answer.usage.output,
        "cost": answer.cost,
    }
    rest: dict[str, Any] = {
        "cached_tokens": answer.usage.cached,
        "latency_ms": latency_ms,
    }
    ModelCall.objects.filter(pk=call_id).update(
        **spent, **rest, finish_reason=answer.finish_reason[:50]
    )
    summed = {key: F(key) + value for key, value in (spent | rest).items()}
    Turn.objects.filter(pk=begun.turn_id).update(**summed)
    totals = {key: F(key) + value for key, value in spent.items()}
    Mysis.objects.filter(pk=begun.mysis_id).update(**totals)


def _named(raw_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {
        "id": _text(raw_id)[:LONGEST_ID] or f"call_{uuid4().hex[:12]}",
        "type": "function",
        "function": {"name": _text(name), "arguments": _text(arguments)},
    }


def _placeholder(
    mysis: Mysis, begun: Begun, call: dict[str, Any], tick: int | None
) -> PendingCall:
    function = call["function"]
    row = Memory.objects.create(
        mysis=mysis,
        turn_id=begun.turn_id,
        role=Role.TOOL,
        origin=Origin.TOOL,
        tool_call_id=call["id"],
        tool_name=function["name"][:200],
        pending=True,
        tick=tick,
    )
    return PendingCall(row.pk, function["name"], function["arguments"])


def _text(text: str) -> str:
    # Neither NUL nor half a surrogate pair can be stored.
    clean = text.replace("\x00", "")
    return clean.encode("utf-8", "replace").decode("utf-8")


def _activity(mysis: Mysis, activity: str) -> None:
    mysis.activity = activity[:200]
    mysis.save(update_fields=["activity"])


def _touch(mysis: Mysis, activity: str, tick: int | None) -> None:
    mysis.activity = activity[:200]
    mysis.last_memory_at = timezone.now()
    mysis.tick = tick if tick is not None else mysis.tick
    mysis.save(update_fields=["activity", "last_memory_at", "tick"])
