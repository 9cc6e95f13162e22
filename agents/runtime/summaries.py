"""The database side of a summary: what is wanted, its check, its commit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from agents import events, summarizing
from agents.events import Kind
from memory import compactions
from memory.compactions import BREAKER_FAILURES, BREAKER_TURNS, Effort, Span
from memory.context import registry
from memory.context.summary_prompt import (
    check_summary,
    literals_of,
    missing_literals,
)
from memory.context.tokens import Counter, counter_for
from memory.context.types import INTENT_ORIGINS
from memory.gamestate.parse import clean_text
from memory.models import HistorySummary
from memory.payload import span_digest
from memory.preview import Prepared as View

from .records import Begun, current

LIMIT = 2_000


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
    request, stats = view.request, view.assembly.stats
    inside = [m for m in request.messages if asked.first_id <= m.id <= asked.last_id]
    folded = sum(
        line.tokens_out
        for line in view.assembly.ledger
        if asked.first_id <= line.id <= asked.last_id
    )
    orders = [m.content for m in inside if m.origin in INTENT_ORIGINS]
    options = registry.validate_options(request.strategy, request.options)
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
        limit=getattr(options, "max_summary_tokens", LIMIT),
        folded=folded,
        replaced=folded + stats["tokens_by_category"]["summary"],
        literals=_literals((*request.pins, *orders[-1:]), asked.request),
        count=counter_for(request.counter, request.calibration),
    )


def _literals(texts: Iterable[str], request: list[dict[str, Any]]) -> tuple[str, ...]:
    """What must survive: literals of the texts that the folded messages show too."""
    shown = "\n".join(str(m.get("content") or "") for m in request[:-1] if _said(m))
    found = dict.fromkeys(part for text in texts for part in literals_of(text))
    lost = set(missing_literals(shown, found))
    return tuple(literal for literal in found if literal not in lost)


def _said(message: dict[str, Any]) -> bool:
    # The system message has the pins themselves.
    return message.get("role") != "system"


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
        f"It was the {BREAKER_FAILURES}rd in a row: the next try is in {BREAKER_TURNS} "
        "turns. Until then, what does not fit is left out. Look at the summarization "
        "prompt and at the model."
        if after.breaker_open
        else f"The next try is in {after.cooling_turns + 1} turns."
    )
    detail = f"The history could not be summarised: {error} {then}"
    events.append(Kind.ERROR, mysis_id=mysis.pk, data={"detail": clean_text(detail)})
