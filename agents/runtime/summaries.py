"""The database side of a summary: what is wanted, its check, its commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from agents import events, summarizing
from agents.events import Kind
from memory import compactions
from memory.compactions import BREAKER_FAILURES, BREAKER_TURNS, Effort, Span
from memory.context.summary_prompt import (
    check_summary,
    literals_of,
    missing_literals,
)
from memory.context.tokens import Counter, counter_for
from memory.context.types import INTENT_ORIGINS, AssemblyRequest, Message
from memory.gamestate.parse import clean_text
from memory.models import HistorySummary
from memory.payload import span_digest
from memory.preview import Prepared as View

from .records import Begun, current


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
    summarizing.install()
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
def commit(begun: Begun, asked: Wanted, text: str, effort: Effort) -> HistorySummary:
    """Store the summary under the Mysis's row lock, and say so.

    Raises VoidedError after a stop, Outdated where the history is another by now.
    """
    mysis = current(begun)
    lost = missing_literals(text, asked.literals)
    row = compactions.commit(
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
def fail(begun: Begun, asked: Wanted, error: str, effort: Effort) -> None:
    """Remember a failure, and tell the operator what follows from it."""
    mysis = current(begun)
    compactions.fail(
        asked.span,
        error=clean_text(error),
        effort=effort,
    )
    after = compactions.standing(mysis.pk, turn=begun.number + 1)
    then = (
        f"It failed {BREAKER_FAILURES} times in a row or more: for {BREAKER_TURNS} turns "
        "it is not tried. Until then, what does not fit is left out. Look at the summarization "
        "prompt and at the model."
        if after.breaker_open
        else f"For {after.cooling_turns} turns it is not tried again."
    )
    detail = f"The history could not be summarised: {error} {then}"
    events.append(Kind.ERROR, mysis_id=mysis.pk, data={"detail": clean_text(detail)})
