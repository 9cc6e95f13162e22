"""Recorded calls made anew with another prompt, model, policy or order.

From one call of a Mysis on its model is really asked, with the view assembled anew at
that moment, and gets the recorded answers for as long as it calls what was called then.
Nothing of it reaches the game or the log. It is paid for like any other call: by the
budgets of its Mysis, and in the usage of the day; turns and the Mysis's own sums, by
which what it earns is judged, are left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from typing import Any

from django.db import transaction
from django.db.models import Exists, Min, OuterRef
from django.utils import timezone
from procrastinate.contrib.django.django_connector import DjangoConnector
from procrastinate.contrib.django.models import ProcrastinateJob
from procrastinate.manager import JobManager
from procrastinate.tasks import configure_task

from agents.actions.base import ActionError, check_text, name_mysis
from agents.context_inputs import build_subject, fit_budget, read_inputs, vary_subject
from agents.lab.recorded_answers import read_answer
from agents.llm.endpoints import resolve
from agents.llm.model_types import (
    Endpoint,
    ModelError,
    calculate_price,
    read_longest_answer,
)
from agents.llm.prompts import DEFAULT_PROMPT, render_prompt
from agents.models import ModelCall, Mysis, PromptVersion, Rewind
from agents.scheduling import BEHIND_TURNS, LIVE
from memory import audit
from memory.assembly.log_rows import (
    LAST,
    LogRow,
    read_newest_order,
    read_rows_by_id,
    to_message,
)
from memory.assembly.prepare import PreparedRequest, Subject, prepare_request
from memory.assembly.replay import find_standing, list_branches, load_past_call
from memory.calibration import read_factor
from memory.context.tokens import choose_counter
from memory.context.types import Message
from memory.models import Branch, ContextPolicy, SentContext

TASK = "agents.tasks.run_rewind"
QUEUE = "lab"
MOST_STEPS, USUAL_STEPS = 100, 20
# Those that may wait or run, and those that run: each has a worker's place for turns.
MOST_UNDER_WAY, AT_ONCE = 20, 4
LOST = "The worker that ran it is gone: start it again."
# In the caller's transaction, with its connection.
_jobs = JobManager(DjangoConnector())
_POLICY = ("name", "strategy", "options", "budget_tokens", "budget_reserve")


@dataclass(frozen=True, slots=True)
class RewindSettings:
    """What is to be otherwise; empty, or no policy: as each call had it."""

    prompt: str = ""
    model: str = ""
    policy: ContextPolicy | None = None
    order: str = ""
    most_steps: int = USUAL_STEPS


@dataclass(frozen=True, slots=True)
class Forecast:
    """The first view, made anew: its tokens and what they cost, in US dollars.

    ``calls`` are at most how many will be made.
    """

    tokens: int
    cost: Decimal
    calls: int
    endpoint: Endpoint


class RewindRun:
    """A stored rewind, or one that is only thought of, with what its views are made of."""

    def __init__(self, row: Rewind, mysis: Mysis) -> None:
        self.row = row
        # Budgets and settings are found by its model.
        self.mysis = copy(mysis)
        self.replaced: dict[int, Message] = {}
        if row.order and row.order_id is not None:
            stored = read_rows_by_id([row.order_id])[row.order_id]
            self.replaced[row.order_id] = replace(to_message(stored), content=row.order)

    @cached_property
    def now(self) -> Subject:
        """Its context of today, for what is not kept with a call."""
        return build_subject(self.mysis)

    @cached_property
    def broadcast(self) -> str | None:
        return read_inputs(self.mysis).broadcast

    def select_calls(self) -> list[SentContext]:
        """The recorded calls from the first on, oldest first, and one beyond the last.

        They end where a branch took back what they rest on.
        """
        rows = SentContext.objects.filter(
            mysis_id=self.mysis.pk, call__gte=self.row.call_id
        ).select_related("call__turn")
        found = list(rows.order_by("pk")[: self.row.most_steps + 1])
        began = (found[0].last_id or 0) if found else 0
        later = Branch.objects.filter(mysis=self.mysis.pk, correction_id__gt=began)
        end = later.aggregate(first=Min("correction_id"))["first"]
        return [sent for sent in found if end is None or (sent.last_id or 0) < end]

    def prepare(self, sent: SentContext) -> tuple[PreparedRequest, Endpoint]:
        """A call's view under these settings, and where it is sent.

        Raises ActionError for a policy that cannot be used, and ModelError for a model.
        """
        past = load_past_call(sent, self.now)
        endpoint = resolve(self.row.model or sent.call.model)
        self.mysis.model = endpoint.name
        subject = self._vary(past.subject, endpoint)
        moment = replace(past.before, replaced=self.replaced)
        return prepare_request(subject, before=moment), endpoint

    def _vary(self, subject: Subject, endpoint: Endpoint) -> Subject:
        row, answer = self.row, read_longest_answer(self.mysis.model_settings, endpoint)
        other = row.model or endpoint.dialect != subject.dialect
        changed = _change_model(subject, endpoint) if other else subject
        policy = _read_policy(row.policy)
        if policy is not None:
            budget = fit_budget(policy, endpoint, answer)
            changed = vary_subject(changed, policy.strategy, policy.options, budget)
        elif row.model:
            own = ContextPolicy(
                budget_tokens=changed.budget.tokens,
                budget_reserve=changed.budget.reserve,
            )
            changed = replace(changed, budget=fit_budget(own, endpoint, answer))
        if row.prompt:
            system = render_prompt(
                row.prompt,
                name=self.mysis.name,
                account=changed.username,
                broadcast=self.broadcast,
            )
            changed = replace(changed, system=system)
        if row.order and changed.mission_id == row.order_id:
            changed = replace(changed, mission=row.order)
        return changed


def _change_model(subject: Subject, endpoint: Endpoint) -> Subject:
    learnt = read_factor(endpoint.name)
    count = choose_counter("estimate", learnt.factor)
    tools = subject.offered
    return replace(
        subject,
        model=endpoint.name,
        dialect=endpoint.dialect,
        learnt=learnt,
        tools_tokens=tools.count_tokens(count) if tools else subject.tools_tokens,
    )


def _read_policy(stored: Mapping[str, Any]) -> ContextPolicy | None:
    return ContextPolicy(**stored) if stored else None


# --- What a call had


def find_call(turn_id: int, number: int) -> SentContext:
    """The stored context of a call of a turn; raises ActionError 422."""
    calls = SentContext.objects.select_related(
        "call__turn", "mysis__account", "mysis__policy", "mysis__prompt"
    )
    found = calls.filter(
        call__turn=turn_id, call__number=number, call__kind=ModelCall.Kind.TURN
    ).first()
    if found is None:
        raise ActionError(
            f"call: call {number} of turn {turn_id} is not on record, or no longer.",
            code="invalid",
            status=422,
        )
    return found


def read_prompt(sent: SentContext) -> str:
    """The prompt that a call was flown with, today's where that is no longer kept."""
    mysis, version_id = sent.mysis, sent.call.turn.prompt_version_id
    versions = PromptVersion.objects.filter(prompt=mysis.prompt_id).order_by("-number")
    then = PromptVersion.objects.filter(pk=version_id or 0).first()
    found = then or versions.first()
    return found.text if found else DEFAULT_PROMPT


def find_order(sent: SentContext) -> LogRow | None:
    """The newest order that a call had before it."""
    through = sent.last_id or 0
    standing = find_standing(through, list_branches(sent.mysis_id))
    return read_newest_order(sent.mysis_id, through, standing)


# --- Thought of, started, discarded


def plan_rewind(sent: SentContext, settings: RewindSettings, by: str) -> RewindRun:
    """A rewind as it would be stored. Raises ActionError 422 for what cannot be."""
    if read_answer(sent, LAST) is None:
        raise ActionError(
            "call: nothing was answered to this call, so nothing can be compared: take "
            "the one before or after it.",
            code="conflict",
        )
    if not 1 <= settings.most_steps <= MOST_STEPS:
        raise ActionError(
            f"steps: give a number from 1 to {MOST_STEPS}.", code="invalid", status=422
        )
    order = find_order(sent) if settings.order else None
    if settings.order and order is None:
        raise ActionError(
            "order: this call had no order that another could stand for: change its "
            "prompt instead.",
            code="invalid",
            status=422,
        )
    policy, call = settings.policy, sent.call
    given = {name: getattr(settings, name) for name in ("prompt", "order")}
    texts = {
        name: check_text(text, f"{name}:") if text else ""
        for name, text in given.items()
    }
    row = Rewind(
        mysis=sent.mysis,
        call_id=call.pk,
        turn_id=call.turn_id,
        turn_number=call.turn.number,
        call_number=call.number,
        **texts,
        model=settings.model.strip(),
        policy={name: getattr(policy, name) for name in _POLICY} if policy else {},
        order_id=order.pk if order else None,
        most_steps=settings.most_steps,
        by=by[:200],
    )
    return RewindRun(row, sent.mysis)


def forecast(run: RewindRun, sent: SentContext) -> Forecast:
    """What its first view comes to, before anything is paid. Raises ActionError 422."""
    try:
        prepared, endpoint = run.prepare(sent)
    except ModelError as error:
        raise ActionError(f"model: {error}", code="invalid", status=422) from error
    if not prepared.assembly.messages:
        raise ActionError(
            f"policy: {prepared.assembly.reason}", code="invalid", status=422
        )
    tokens = count_tokens(prepared)
    cost = calculate_price(endpoint, input_tokens=tokens, output_tokens=0)
    calls = min(len(run.select_calls()), run.row.most_steps)
    return Forecast(tokens, round(cost, 6), calls, endpoint)


def count_tokens(prepared: PreparedRequest) -> int:
    """The tokens of a view with its tools, by our count."""
    by_category: Mapping[str, int] = prepared.assembly.stats["tokens_by_category"]
    return sum(by_category.values())


@transaction.atomic
def start_rewind(*, sent: SentContext, settings: RewindSettings, by: str) -> Rewind:
    """Store a rewind and queue its job. Raises ActionError as `plan_rewind`, and 409."""
    if Rewind.objects.filter(state__in=Rewind.UNDER_WAY).count() >= MOST_UNDER_WAY:
        raise ActionError(
            f"{MOST_UNDER_WAY} rewinds are under way: wait for one, or discard one.",
            code="too_many",
        )
    run = plan_rewind(sent, settings, by)
    found = forecast(run, sent)
    row = run.row
    row.first_tokens, row.first_cost, row.total = found.tokens, found.cost, found.calls
    row.save()
    task = configure_task(
        name=TASK,
        job_manager=_jobs,
        queue=QUEUE,
        lock=f"rewind-{row.pk % AT_ONCE}",
        priority=BEHIND_TURNS,
    )
    row.job_id = task.defer(rewind_id=row.pk)
    row.save(update_fields=["job_id"])
    told = {
        "turn": row.turn_number,
        "call": row.call_number,
        "prompt": row.prompt,
        "model": row.model,
        "policy": row.policy.get("name", ""),
        "order": row.order,
    }
    given = {name: value for name, value in told.items() if value}
    audit.record("rewind.start", name_mysis(sent.mysis), by=by, after=given)
    return row


@transaction.atomic
def discard_rewind(*, rewind: Rewind, by: str) -> None:
    """End a rewind if it is under way, and delete it with its steps.

    What its calls cost stays counted.
    """
    row = Rewind.objects.select_for_update().filter(pk=rewind.pk).first()
    if row is None:
        return
    if row.job_id is not None and row.state == Rewind.State.QUEUED:
        _jobs.cancel_job_by_id(row.job_id, delete_job=True)
    told = {"state": str(row.state), "calls": row.done, "cost": str(row.cost)}
    audit.record("rewind.discard", name_mysis(rewind.mysis), by=by, before=told)
    row.delete()


def fail_lost() -> None:
    """End the rewinds whose worker died; theirs is a job that is no longer there."""
    live = ProcrastinateJob.objects.filter(pk=OuterRef("job_id"), status__in=LIVE)
    lost = Rewind.objects.filter(~Exists(live), state__in=Rewind.UNDER_WAY)
    lost.update(
        state=Rewind.State.FAILED,
        end=Rewind.End.ERROR,
        error=LOST,
        finished_at=timezone.now(),
    )
