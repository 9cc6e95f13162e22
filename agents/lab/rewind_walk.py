"""A rewind at work: call after call, until one differs from what was recorded."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from agents import budgets, usage
from agents.actions.base import ActionError
from agents.budgets import NOTHING, Amount, BudgetSpentError, Taken
from agents.db import run_in_db
from agents.lab.recorded_answers import (
    RecordedAnswer,
    describe_made,
    find_difference,
    read_answer,
    read_called,
)
from agents.lab.rewind import RewindRun, count_tokens
from agents.llm.complete import complete
from agents.llm.model_types import (
    Completion,
    CompletionRequest,
    Endpoint,
    ModelError,
    OfferedTool,
    calculate_price,
)
from agents.models import Mysis, Rewind, RewindStep
from agents.tools.game_calls import take_up_calls
from agents.usage import CallCost, CallPlace
from memory.assembly.log_rows import LAST
from memory.assembly.prepare import PreparedRequest
from memory.gamestate.values import repair_text
from memory.models import SentContext
from memory.models.secret_tools import read_secret_tools

# Seconds between two looks whether it was discarded.
POLL_SECONDS = 0.5
BROKEN_OFF = "It was broken off."
End = Rewind.End
State = Rewind.State

logger = logging.getLogger(__name__)


class DiscardedError(Exception):
    """The rewind is gone: nothing of it is wanted any more."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a rewind ends; with an ``error`` it has failed."""

    end: Rewind.End
    error: str = ""


@dataclass(frozen=True, slots=True)
class Paid:
    """A call that may be made: where it is counted, and what budgets lent it.

    ``estimate`` is what it costs at most by our count.
    """

    place: CallPlace
    taken: Sequence[Taken]
    estimate: CallCost


async def run_rewind(rewind_id: int) -> None:
    """Make the calls of a queued rewind; whatever happens, its end is recorded."""
    run = await run_in_db(_begin, rewind_id)
    if run is None:
        return
    try:
        ending = await _walk(run)
    except DiscardedError:
        return
    except asyncio.CancelledError:
        words = "Its worker was stopped: start it again."
        end = run_in_db(_finish, rewind_id, Ending(End.ERROR, words))
        await asyncio.shield(asyncio.ensure_future(end))
        raise
    except (ModelError, ActionError) as error:
        ending = Ending(End.ERROR, str(error))
    except BudgetSpentError as error:
        ending = Ending(End.BUDGET, f"{error.why} Start it again when there is.")
    except Exception as error:
        logger.exception("A rewind failed")
        words = f"Internal error ({type(error).__name__}). The worker's log has more."
        ending = Ending(End.ERROR, words)
    await run_in_db(_finish, rewind_id, ending)


@transaction.atomic
def _begin(rewind_id: int) -> RewindRun | None:
    rows = Rewind.objects.select_for_update(of=("self",)).filter(state=State.QUEUED)
    row = rows.filter(pk=rewind_id).first()
    if row is None:
        return None
    row.state, row.started_at = State.RUNNING, timezone.now()
    row.save(update_fields=["state", "started_at"])
    joined = ("account", "policy", "prompt")
    return RewindRun(row, Mysis.objects.select_related(*joined).get(pk=row.mysis_id))


def _finish(rewind_id: int, ending: Ending) -> None:
    Rewind.objects.filter(pk=rewind_id, state=State.RUNNING).update(
        state=State.FAILED if ending.error else State.DONE,
        end=ending.end,
        error=repair_text(ending.error),
        finished_at=timezone.now(),
    )


async def _walk(run: RewindRun) -> Ending:
    calls = await run_in_db(run.select_calls)
    for place, sent in enumerate(calls[: run.row.most_steps]):
        # What came until the next call was answered to this one.
        until = calls[place + 1].last_id if place + 1 < len(calls) else LAST
        recorded = await run_in_db(read_answer, sent, until or 0)
        if recorded is None:
            continue
        prepared, endpoint = await run_in_db(run.prepare, sent)
        answer, latency_ms = await _ask(run, prepared, endpoint)
        differs = await run_in_db(_keep_step, run, sent, recorded, answer, latency_ms)
        if differs:
            return Ending(End.DIFFERS)
        message = recorded.with_made(answer)
        if message is not None:
            run.replaced[message.id] = message
    full = len(calls) > run.row.most_steps
    return Ending(End.LIMIT if full else End.RECORD)


async def _ask(
    run: RewindRun, prepared: PreparedRequest, endpoint: Endpoint
) -> tuple[Completion, int]:
    """The answer with its calls as the log would have them, and its milliseconds."""
    assembly = prepared.assembly
    if not assembly.messages:
        raise ActionError(assembly.reason, code="invalid")
    offered = assembly.offered.sent if assembly.offered else ()
    request = CompletionRequest(
        endpoint,
        assembly.messages,
        assembly.system,
        [OfferedTool(t["name"], t["description"], t["parameters"]) for t in offered],
        run.mysis.model_settings,
    )
    paid = await run_in_db(_pay, run, count_tokens(prepared), endpoint)
    started = time.monotonic()
    try:
        answer = await _complete_unless_discarded(request, run.row.pk)
    except ModelError as error:
        await run_in_db(_record_refusal, paid, error, _milliseconds_since(started))
        raise
    except BaseException:
        # Whatever broke it off, the provider may charge for it.
        lost = run_in_db(_record_broken_off, paid, _milliseconds_since(started))
        await asyncio.shield(asyncio.ensure_future(lost))
        raise
    latency_ms = _milliseconds_since(started)
    await run_in_db(_record_cost, paid, answer, latency_ms)
    return take_up_calls(answer), latency_ms


async def _complete_unless_discarded(
    request: CompletionRequest, rewind_id: int
) -> Completion:
    task = asyncio.ensure_future(complete(request))
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=POLL_SECONDS)
            if not task.done() and not await run_in_db(_is_wanted, rewind_id):
                raise DiscardedError
        return task.result()
    finally:
        task.cancel()


def _is_wanted(rewind_id: int) -> bool:
    return Rewind.objects.filter(pk=rewind_id, state=State.RUNNING).exists()


@transaction.atomic
def _pay(run: RewindRun, tokens: int, endpoint: Endpoint) -> Paid:
    """Pay for a call by its estimate; raises BudgetSpentError, and DiscardedError."""
    if not _is_wanted(run.row.pk):
        raise DiscardedError
    mysis = run.mysis
    most = mysis.model_settings.get("max_tokens")
    answer = most if isinstance(most, int) and most > 0 else 0
    price = calculate_price(endpoint, input_tokens=tokens, output_tokens=answer)
    taken = budgets.take_budgets(
        mysis,
        tokens + answer,
        lambda: price,
        budgets.find_budgets(mysis),
        report=False,
    )
    row = run.row
    place = CallPlace(
        call_id=0,
        mysis_id=mysis.pk,
        day=usage.today(),
        policy=row.policy.get("name") or mysis.effective_policy.name,
        model=endpoint.name,
    )
    return Paid(place, taken, CallCost(tokens, answer, cost=price))


@transaction.atomic
def _record_cost(paid: Paid, answer: Completion, latency_ms: int) -> None:
    used = answer.usage
    spent = CallCost(
        input_tokens=used.input,
        output_tokens=used.output,
        cached_tokens=used.cached,
        cost=answer.cost,
        latency_ms=latency_ms,
        finish_reason=answer.finish_reason,
    )
    usage.record_apart(paid.place, spent)
    budgets.settle_budgets(paid.taken, Amount(used.input + used.output, answer.cost))


@transaction.atomic
def _record_refusal(paid: Paid, error: ModelError, latency_ms: int) -> None:
    usage.record_apart(paid.place, CallCost(latency_ms=latency_ms, error=str(error)))
    if error.surely_free:
        budgets.settle_budgets(paid.taken, NOTHING)


def _record_broken_off(paid: Paid, latency_ms: int) -> None:
    """Count a call of which nothing more is heard, by its estimate, as budgets do."""
    spent = replace(paid.estimate, latency_ms=latency_ms, error=BROKEN_OFF)
    usage.record_apart(paid.place, spent)


@transaction.atomic
def _keep_step(
    run: RewindRun,
    sent: SentContext,
    recorded: RecordedAnswer,
    answer: Completion,
    latency_ms: int,
) -> str:
    """Store a step beside what was recorded; why it differs, empty where it does not."""
    rows = Rewind.objects.select_for_update().filter(pk=run.row.pk, state=State.RUNNING)
    row = rows.first()
    if row is None:
        raise DiscardedError
    made = read_called(answer.tool_calls)
    differs = find_difference(recorded.calls, made, read_secret_tools())
    call = sent.call
    RewindStep.objects.create(
        rewind=row,
        place=row.done + 1,
        turn_id=call.turn_id,
        turn_number=call.turn.number,
        call_number=call.number,
        recorded=recorded.document,
        made=describe_made(answer, latency_ms),
        differs=differs,
    )
    rows.update(
        done=F("done") + 1,
        input_tokens=F("input_tokens") + answer.usage.input,
        output_tokens=F("output_tokens") + answer.usage.output,
        cost=F("cost") + answer.cost,
    )
    return differs


def _milliseconds_since(started: float) -> int:
    return round((time.monotonic() - started) * 1000)
