"""Assemble the next model request, pay for it by estimate, and store it before sending."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal

from django.db import transaction
from django.utils import timezone

from agents import budgets, context_inputs, db, events, statements, usage
from agents.actions import messages
from agents.actions.base import append_state_event
from agents.budgets import NOTHING, Taken
from agents.llm.model_types import Endpoint, OfferedTool, calculate_price
from agents.models import ModelCall, Mysis
from agents.runtime.turn_rows import (
    TurnHandle,
    load_inputs,
    lock_for_call,
    resume_from_budget,
)
from agents.usage import CallPlace
from memory.assembly import prepare
from memory.assembly.prepare import LogMoment, PreparedRequest
from memory.calibration import TokenFactor
from memory.context.result_types import Assembly
from memory.gamestate.values import repair_text
from memory.models import SentContext

FALLBACK = "fallback_used"


@dataclass(frozen=True, slots=True)
class Opened:
    """A call that may be made: where it is counted, and what budgets lent it."""

    place: CallPlace
    taken: tuple[Taken, ...] = ()


@dataclass(frozen=True, slots=True)
class CallEstimate:
    """What a call will cost, by our count of tokens.

    ``output_tokens`` is the most that may be answered, 0 where nothing bounds it.
    """

    endpoint: Endpoint
    number: int
    input_tokens: int
    output_tokens: int = 0
    summary: bool = False

    def price(self) -> Decimal:
        """US dollars at list prices."""
        return calculate_price(
            self.endpoint,
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
        )


@dataclass(frozen=True, slots=True)
class ReadyCall:
    """A stored call; ``seen`` is the newest row it shows, ``estimated`` its tokens.

    ``learnt`` is what was known of the model's tokens when they were estimated.
    """

    opened: Opened
    assembly: Assembly
    seen: int
    estimated: int
    learnt: TokenFactor | None = None


def assemble_next(
    handle: TurnHandle,
    endpoint: Endpoint | None = None,
    *,
    fold_tokens: int = 0,
    summary_calls: int = 0,
    within: int = 0,
    calls_left: int | None = None,
) -> PreparedRequest:
    """Assemble the next request; reads only, before the row is locked, so no stop waits.

    ``fold_tokens`` bounds the history of which a summary may be asked for,
    ``summary_calls`` is how many requests were made for the one that it shows, and
    ``within`` the most tokens of the view, 0 where only its budget bounds it.
    ``calls_left`` are those of the turn with this one, None to count what is stored.
    """
    mysis, inputs = load_inputs(handle)
    subject = context_inputs.build_subject(mysis, inputs=inputs, endpoint=endpoint)
    known = replace(
        subject.compaction, fold_tokens=fold_tokens, summary_calls=summary_calls
    )
    turns = handle.max_iterations
    subject = replace(
        subject,
        compaction=known,
        budget=context_inputs.narrow_budget(subject.budget, within),
        # As the turn began with it, whatever was set since.
        turns_left=context_inputs.count_turns_left(
            turns - inputs.calls_made if calls_left is None else calls_left
        ),
        max_turns=turns,
    )
    return prepare.prepare_request(
        subject,
        before=LogMoment(inputs.summary),
        reads=handle.reads,
    )


def list_offered(assembly: Assembly) -> list[OfferedTool]:
    """The tools that go with a view."""
    sent = assembly.offered.sent if assembly.offered else ()
    return [
        OfferedTool(tool["name"], tool["description"], tool["parameters"])
        for tool in sent
    ]


@transaction.atomic
def persist_call(
    handle: TurnHandle, number: int, endpoint: Endpoint, prepared: PreparedRequest
) -> ReadyCall:
    """Store exactly what the next call is sent; raises what `open_call` raises."""
    estimated = sum(prepared.assembly.stats["tokens_by_category"].values())
    most = handle.model_settings.get("max_tokens")
    most = max(most, 0) if isinstance(most, int) else 0
    estimate = CallEstimate(endpoint, number, estimated, most)
    opened, mysis = open_call(handle, estimate)
    if prepared.assembly.messages:
        _report_fallback(mysis, prepared.assembly)
        _report_lost_pins(mysis, prepared)
        prepare.record_call(
            call_id=opened.place.call_id, prepared=prepared, reads=handle.reads
        )
    else:
        # It is not sent.
        budgets.settle_budgets(opened.taken, NOTHING)
    rows = prepared.request.messages
    new = messages.find_unheard(mysis, ((row.id, row.origin) for row in rows))
    if new:
        turn = handle.turn_id, handle.number
        # What a coalesced view quotes was shown, though it is no message of its own.
        sources = [*prepared.assembly.sources, [*prepared.assembly.told]]
        messages.record_shown(mysis, new, sources, turn=turn, call=number)
        shown = {"turn": handle.turn_id, "call": number, "messages": new}
        append_state_event(mysis, "runtime", shown=shown)
    seen = rows[-1].id if rows else 0
    learnt = prepared.subject.learnt
    return ReadyCall(opened, prepared.assembly, seen, estimated, learnt)


@transaction.atomic(savepoint=False)
def open_call(handle: TurnHandle, estimate: CallEstimate) -> tuple[Opened, Mysis]:
    """Insert a call's row and pay for it by estimate, with the row of its Mysis locked.

    Raises TurnSuperseded, and BudgetSpentError: then nothing is stored.
    """
    mysis, found = lock_for_call(handle)
    kind = ModelCall.Kind.SUMMARY if estimate.summary else ModelCall.Kind.TURN
    taken = budgets.take_budgets(
        mysis, estimate.input_tokens + estimate.output_tokens, estimate.price, found
    )
    now = timezone.now()
    values = {
        "turn": handle.turn_id,
        "mysis": mysis.pk,
        "kind": kind.value,
        "number": estimate.number,
        "counted": not estimate.summary,
        "model": handle.model,
        "now": now,
    }
    (call_id,) = db.fetch_row(statements.OPEN_MODEL_CALL, values, prepare=True)
    place = CallPlace(
        call_id=call_id,
        mysis_id=mysis.pk,
        day=usage.get_day(now),
        policy=mysis.effective_policy.name,
        model=handle.model,
        summary=estimate.summary,
    )
    resume_from_budget(mysis)
    return Opened(place, taken), mysis


def _report_fallback(mysis: Mysis, assembly: Assembly) -> None:
    """Report once, not at every call, that the window stands in for a failing strategy."""
    if assembly.status != FALLBACK:
        return
    last = (
        SentContext.objects.filter(mysis=mysis)
        .order_by("-pk")
        .values_list("stats__status", flat=True)
        .first()
    )
    if last != FALLBACK:
        events.append_error(
            mysis.pk,
            repair_text(f"The context was made by the fallback. {assembly.reason}"),
            remedy="Look at the context policy of the Mysis.",
        )


def _report_lost_pins(mysis: Mysis, prepared: PreparedRequest) -> None:
    """Keep which standing orders the view lacks; written where that has changed."""
    lost = " ".join(pin.explain() for pin in prepared.pins if not pin.sent)
    if lost == mysis.lost_pins:
        return
    if lost:
        events.append_error(mysis.pk, lost, code="context")
    mysis.lost_pins = lost
    mysis.save(update_fields=["lost_pins"])
