"""A Mysis's next context: its prompt, pins, policy and tools put together.

``preview`` is what the pages and the API show; ``subject_of`` is what the turn
takes, so both come from one place.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

from memory import calibration, compactions, past
from memory.context import registry
from memory.context.types import Budget
from memory.models import ContextPolicy, SentContext
from memory.past import Past
from memory.preview import Prepared, Subject, prepare
from memory.reading import fetches_events

from . import catalogue
from .actions import ActionError
from .brief import Brief, brief_of
from .llm.endpoints import resolve
from .llm.prompts import DEFAULT_PROMPT, nudge, render_prompt
from .llm.types import Endpoint, ModelError, longest_answer
from .models import Mysis

LARGEST_BUDGET = Budget().tokens
RESERVE = Budget().reserve
RESERVE_SHARE = 4
LONGEST_BROADCAST = 1_000

logger = logging.getLogger(__name__)


def preview(
    mysis: Mysis,
    *,
    strategy: str | None = None,
    options: Mapping[str, object] | None = None,
    budget: Budget | None = None,
) -> Prepared:
    """What the next call would be sent; writes nothing.

    Raises ActionError 422 for an unknown strategy or a bad option.
    """
    subject = subject_of(mysis, strategy=strategy, options=options, budget=budget)
    check_policy(subject.strategy, subject.options)
    return prepare(subject)


def past_of(sent: SentContext) -> Past:
    """A call that was made, to be assembled again; what is not kept is as now."""
    return past.past_of(sent, subject_of(sent.mysis))


def again(
    then: Past,
    *,
    strategy: str | None = None,
    options: Mapping[str, object] | None = None,
    budget: Budget | None = None,
) -> Prepared:
    """What a past call would have been sent; without other settings, what it was.

    Raises ActionError 422 for an unknown strategy or a bad option.
    """
    own = then.subject
    same = strategy is None or strategy == own.strategy
    kept = own.options if same else {}
    subject = replace(
        own,
        strategy=strategy or own.strategy,
        options=options if options is not None else kept,
        budget=budget or own.budget,
    )
    check_policy(subject.strategy, subject.options)
    return prepare(subject, before=then.before)


def check_policy(strategy: str, options: Mapping[str, object]) -> None:
    """Refuse what a turn could not use, with the field and the remedy."""
    try:
        registry.validate_options(strategy or registry.DEFAULT, options)
    except (ValueError, TypeError) as error:
        raise ActionError(str(error), code="invalid", status=422) from error


def subject_of(
    mysis: Mysis,
    *,
    strategy: str | None = None,
    options: Mapping[str, object] | None = None,
    budget: Budget | None = None,
) -> Subject:
    """Everything about a Mysis that its context depends on, beside the log."""
    policy = mysis.policy or ContextPolicy(strategy=registry.DEFAULT)
    # Options belong to a strategy: another strategy starts from its defaults.
    same = strategy is None or strategy == policy.strategy
    brief = brief_of(mysis)
    prompt = DEFAULT_PROMPT if brief.prompt is None else brief.prompt
    learnt = calibration.known(mysis.model)
    chosen = strategy or policy.strategy
    kept = policy.options if same else {}
    endpoint = _endpoint(mysis)
    given = options if options is not None else kept
    username = mysis.account.username if mysis.account else None
    return Subject(
        mysis_id=mysis.pk,
        name=mysis.name,
        system=_filled(prompt, mysis, username, brief),
        pins=brief.pins,
        username=username,
        fetched=fetches_events(given),
        strategy=chosen,
        options=given,
        budget=budget or _budget(mysis, policy, endpoint),
        dialect=endpoint.dialect if endpoint else "openai",
        tool_policy=catalogue.policies_of(brief.catalogue, messaging=mysis.messaging),
        tools_tokens=catalogue.tokens_of(
            brief.catalogue, messaging=mysis.messaging, factor=learnt.factor
        ),
        nudge=nudge(mysis.nudges + 1),
        model=mysis.model,
        compaction=replace(
            compactions.standing(mysis.pk, turn=mysis.turn_count), prompt=brief.template
        ),
        calibration=learnt.factor,
        estimate_error=learnt.error,
    )


def filled(text: str, mysis: Mysis, username: str | None) -> str:
    """A prompt's text with its placeholders filled for a Mysis (A10)."""
    return _filled(text, mysis, username, brief_of(mysis))


def _filled(text: str, mysis: Mysis, username: str | None, brief: Brief) -> str:
    newest = brief.broadcast
    return render_prompt(
        text,
        name=mysis.name,
        account=username,
        broadcast=None if newest is None else shortened(newest),
    )


def shortened(text: str) -> str:
    """The head of a broadcast: the whole stands in the log of each receiver."""
    if len(text) <= LONGEST_BROADCAST:
        return text
    return f"{text[:LONGEST_BROADCAST]}… (the rest is in the message itself)"


def _budget(mysis: Mysis, policy: ContextPolicy, endpoint: Endpoint | None) -> Budget:
    answer = longest_answer(mysis.model_settings, endpoint)
    return narrowed(budget_of(policy, endpoint, answer), mysis.narrowed_view())


def budget_of(
    policy: ContextPolicy, endpoint: Endpoint | None, answer: int = 0
) -> Budget:
    """The policy's budget; with the answer's tokens never more than the window.

    Providers refuse a request whose ``max_tokens`` go beyond the window together with
    the context. Where they leave next to nothing, a part of it is kept all the same.
    """
    window = endpoint.window if endpoint else LARGEST_BUDGET
    tokens = min(policy.budget_tokens, window)
    least = tokens // RESERVE_SHARE
    reserve = max(min(policy.budget_reserve, least), tokens + answer - window)
    return Budget(tokens, min(reserve, tokens - least))


def narrowed(budget: Budget, within: int) -> Budget:
    """The same reserve, and a view of so many tokens at most; 0 is no bound."""
    if not within:
        return budget
    return replace(budget, tokens=min(budget.tokens, within + budget.reserve))


def _endpoint(mysis: Mysis) -> Endpoint | None:
    try:
        return resolve(mysis.model)
    except ModelError:
        # The turn will say so; a preview is still worth showing.
        return None
