"""A model call: what it will be sent, and what it was sent, kept before it is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from django.db import connection, transaction
from django.utils import timezone

from agents import budgets, context_inputs, deliveries, events, usage
from agents.actions.base import state_event
from agents.budgets import Taken
from agents.deliveries import unheard
from agents.events import Kind
from agents.llm.context_windows import LIMITED_FOR, learn
from agents.llm.errors import limit_of
from agents.llm.model_types import Endpoint, ModelError, price
from agents.models import ModelCall, Mysis
from agents.runtime.turn_rows import (
    TurnHandle,
    TurnSuperseded,
    current,
    going_on,
    resume_from_budget,
)
from agents.usage import Place
from memory.assembly import prepare
from memory.assembly.prepare import PreparedRequest as View
from memory.assembly.prepare import prepare_request
from memory.context.types import Assembly
from memory.gamestate.values import clean_text
from memory.models import SentContext

FALLBACK = "fallback_used"

Value = int | str | datetime

# Written in each call, while the Mysis is locked: the ORM would take four times as long.
OPEN = """
INSERT INTO agents_modelcall (
  turn_id, kind, number, model, input_tokens, output_tokens, cached_tokens, cost,
  latency_ms, finish_reason, error, created_at
) VALUES (%s, %s, %s, %s, 0, 0, 0, 0, 0, '', '', %s) RETURNING id
"""
ASKING = """
WITH turn AS (UPDATE agents_turn SET iterations = %s WHERE id = %s)
UPDATE agents_mysis SET activity = 'thinking' WHERE id = %s RETURNING id
"""


@dataclass(frozen=True, slots=True)
class Opened:
    """A call that may be made: where it is counted, and what budgets lent it."""

    place: Place
    taken: tuple[Taken, ...] = ()


@dataclass(frozen=True, slots=True)
class CallEstimate:
    """A call as its row is made: of which endpoint, and its tokens by our count.

    ``output_tokens`` is the most that may be answered, 0 where nothing bounds it.
    """

    endpoint: Endpoint
    number: int
    input_tokens: int
    output_tokens: int = 0
    summary: bool = False

    def price(self) -> Decimal:
        """US dollars at list prices."""
        return price(
            self.endpoint,
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
        )


@dataclass(frozen=True, slots=True)
class ReadyCall:
    """One call that is ready to be made.

    ``seen`` is the newest row it shows, ``estimated`` what it costs by our count.
    """

    opened: Opened
    assembly: Assembly
    seen: int
    estimated: int


def assemble_next(
    begun: TurnHandle, *, fold_tokens: int = 0, summary_calls: int = 0, within: int = 0
) -> View:
    """Assemble what the next call would be sent; reads only.

    It is done before the row is locked, so that a stop never waits for it.
    ``fold_tokens`` bounds the history of which a summary may be asked for,
    ``summary_calls`` is how many requests were made for the one that it shows, and
    ``within`` the most tokens of the view, 0 where only its budget bounds it.
    """
    mysis = going_on(begun)
    if mysis is None:
        raise TurnSuperseded
    subject = context_inputs.subject_of(mysis)
    known = replace(
        subject.compaction, fold_tokens=fold_tokens, summary_calls=summary_calls
    )
    budget = context_inputs.narrowed(subject.budget, within)
    return prepare_request(replace(subject, compaction=known, budget=budget))


@transaction.atomic
def persist_call(
    begun: TurnHandle, number: int, endpoint: Endpoint, prepared: View
) -> ReadyCall:
    """Keep exactly what the next call is sent, before it is made.

    Raises VoidedError, and BudgetSpentError: then nothing is kept.
    """
    mysis = current(begun)
    estimated = sum(prepared.assembly.stats["tokens_by_category"].values())
    most = most_tokens(begun)
    opened = open_call(begun, mysis, CallEstimate(endpoint, number, estimated, most))
    if prepared.assembly.messages:
        _tell_fallback(mysis, prepared.assembly)
        prepare.record(call_id=opened.place.call_id, prepared=prepared)
    _write(ASKING, [number, begun.turn_id, mysis.pk])
    rows = prepared.request.messages
    new = unheard(mysis, ((row.id, row.origin) for row in rows))
    if new:
        _take_in(begun, mysis, new, number, prepared.assembly)
    seen = rows[-1].id if rows else 0
    return ReadyCall(opened, prepared.assembly, seen, estimated)


def _take_in(
    begun: TurnHandle, mysis: Mysis, new: list[int], number: int, view: Assembly
) -> None:
    at = deliveries.Call(begun.turn_id, begun.number, number)
    deliveries.take_in(mysis, new, view.sources, at)
    shown = {"turn": begun.turn_id, "call": number, "messages": new}
    state_event(mysis, "runtime", shown=shown)


@transaction.atomic
def open_summary(begun: TurnHandle, wish: CallEstimate) -> Opened:
    """Keep that a summary is asked for, before it is; raises as `keep` does."""
    return open_call(begun, current(begun), wish)


def open_call(begun: TurnHandle, mysis: Mysis, wish: CallEstimate) -> Opened:
    """The row of a call, paid for by estimate, in the caller's transaction."""
    kind = ModelCall.Kind.SUMMARY if wish.summary else ModelCall.Kind.TURN
    taken = budgets.take(mysis, wish.input_tokens + wish.output_tokens, wish.price)
    now = timezone.now()
    values: list[Value] = [begun.turn_id, kind.value, wish.number, begun.model, now]
    place = Place(
        call_id=_write(OPEN, values),
        mysis_id=mysis.pk,
        day=usage.day_of(now),
        policy=mysis.policy.name if mysis.policy else "",
        model=begun.model,
        summary=wish.summary,
    )
    resume_from_budget(mysis)
    return Opened(place, taken)


def _write(sql: str, values: Sequence[Value]) -> int:
    """The id that a statement returns."""
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        row: tuple[int] = cursor.fetchone()
    return row[0]


def most_tokens(begun: TurnHandle) -> int:
    """The longest answer that the Mysis's settings allow; 0 where they do not say."""
    most = begun.model_settings.get("max_tokens")
    return most if isinstance(most, int) and most > 0 else 0


def _tell_fallback(mysis: Mysis, assembly: Assembly) -> None:
    """Say once that a strategy fails and the window stands in, not at every call."""
    if assembly.status != FALLBACK:
        return
    last = (
        SentContext.objects.filter(mysis=mysis)
        .order_by("-pk")
        .values_list("stats__status", flat=True)
        .first()
    )
    if last != FALLBACK:
        detail = f"The context was made by the fallback. {assembly.reason}"
        remedy = "Look at the context policy of the Mysis."
        data = {"detail": clean_text(detail), "remedy": remedy}
        events.append(Kind.ERROR, mysis_id=mysis.pk, data=data)


# SECTION A context that a provider had no room for: what the view of the next try may hold.
#
# A limit that the refusal names is true of the model, so every Mysis on it keeps to it
# from then on. Where none is named, or our own count was wrong, a smaller view is a
# guess from one request: it holds for this Mysis alone, once it has proved right.

#: The part of a refused context that is tried next.
SMALLER = 0.75
KEPT_FOR: timedelta = LIMITED_FOR


@dataclass(frozen=True, slots=True)
class Retry:
    """What a view may have, in tokens by our count, after which refusal.

    ``guess`` says that the refusal itself does not make later views smaller.
    """

    tokens: int
    refusal: ModelError
    guess: bool


def plan_retry(endpoint: Endpoint, refusal: ModelError, estimated: int) -> Retry:
    """The view of the next try: smaller than the refused one in any case."""
    smaller = int(estimated * SMALLER)
    limit = limit_of(refusal)
    if limit is None:
        return Retry(smaller, refusal, guess=True)
    learn(endpoint, limit)
    return Retry(min(limit, smaller), refusal, guess=limit >= estimated)


def remember_retry(begun: TurnHandle, found: Retry) -> None:
    """Keep a guess that was answered: later turns begin with it."""
    Mysis.objects.filter(pk=begun.mysis_id).update(
        view_tokens=found.tokens,
        view_model=begun.model,
        view_until=timezone.now() + KEPT_FOR,
    )
