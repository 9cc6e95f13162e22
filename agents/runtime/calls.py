"""A model call: what it will be sent, and what it was sent, kept before it is made."""

from __future__ import annotations

from dataclasses import dataclass, replace

from django.db import transaction

from agents import context, events, usage
from agents.events import Kind
from agents.models import ModelCall, Mysis, Turn
from agents.usage import Place
from memory import sent
from memory.context.types import Assembly
from memory.gamestate.parse import clean_text
from memory.models import SentContext
from memory.preview import Prepared as View
from memory.preview import prepare

from .records import Begun, VoidedError, activity, current, going_on

FALLBACK = "fallback_used"


@dataclass(frozen=True, slots=True)
class Prepared:
    """One call that is ready to be made.

    ``place`` is where it is counted, ``seen`` the newest row it shows, ``estimated``
    what it costs by our count.
    """

    place: Place
    assembly: Assembly
    seen: int
    estimated: int


def look(begun: Begun, *, fold_tokens: int = 0, summary_calls: int = 0) -> View:
    """Assemble what the next call would be sent; reads only.

    It is done before the row is locked, so that a stop never waits for it.
    ``fold_tokens`` bounds the history of which a summary may be asked for,
    ``summary_calls`` is how many requests were made for the one that it shows.
    """
    mysis = going_on(begun).first()
    if mysis is None:
        raise VoidedError
    subject = context.subject_of(mysis)
    known = replace(
        subject.compaction, fold_tokens=fold_tokens, summary_calls=summary_calls
    )
    return prepare(replace(subject, compaction=known))


@transaction.atomic
def keep(begun: Begun, number: int, prepared: View) -> Prepared:
    """Keep exactly what the next call is sent, before it is made."""
    mysis = current(begun)
    place = opened(begun, mysis, number)
    if prepared.assembly.messages:
        _tell_fallback(mysis, prepared.assembly)
        sent.record(call_id=place.call_id, prepared=prepared)
    Turn.objects.filter(pk=begun.turn_id).update(iterations=number)
    activity(mysis, "thinking")
    rows = prepared.request.messages
    return Prepared(
        place,
        prepared.assembly,
        rows[-1].id if rows else 0,
        sum(prepared.assembly.stats["tokens_by_category"].values()),
    )


@transaction.atomic
def open_summary(begun: Begun, number: int) -> Place:
    """Keep that a summary is asked for, before it is; raises VoidedError."""
    return opened(begun, current(begun), number, summary=True)


def opened(begun: Begun, mysis: Mysis, number: int, *, summary: bool = False) -> Place:
    """The row of a call that is about to be made, in the caller's transaction."""
    kind = ModelCall.Kind.SUMMARY if summary else ModelCall.Kind.TURN
    call = ModelCall.objects.create(
        turn_id=begun.turn_id, kind=kind, number=number, model=begun.model
    )
    return Place(
        call_id=call.pk,
        mysis_id=mysis.pk,
        day=usage.day_of(call.created_at),
        policy=mysis.policy.name if mysis.policy else "",
        model=begun.model,
        summary=summary,
    )


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
