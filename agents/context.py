"""A Mysis's next context: its prompt, pins, policy and tools put together.

``preview`` is what the pages and the API show; ``subject_of`` is what the turn
takes, so both come from one place.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from django.conf import settings

from memory import calibration, compactions
from memory.calibration import Known
from memory.context import registry
from memory.context.tokens import counter_for
from memory.context.types import Budget, Compaction
from memory.models import ContextPolicy
from memory.preview import Prepared, Subject, prepare
from memory.reading import fetches_events

from .actions import ActionError
from .llm.endpoints import resolve
from .llm.prompts import DEFAULT_PROMPT, nudge, render_prompt
from .llm.types import Endpoint, ModelError, longest_answer
from .models import Broadcast, Mysis, ToolCatalogue
from .summarizing import current_prompt
from .tools.offer import FOR_MYSES, SENDING
from .tools.types import ToolSpec

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
    tools = tools_of(mysis)
    learnt = calibration.known(mysis.model)
    chosen = strategy or policy.strategy
    kept = policy.options if same else {}
    endpoint = _endpoint(mysis)
    given = options if options is not None else kept
    username = mysis.account.username if mysis.account else None
    return Subject(
        mysis_id=mysis.pk,
        name=mysis.name,
        system=system_prompt(mysis, username),
        pins=tuple(mysis.pins.order_by("pk").values_list("text", flat=True)),
        username=username,
        fetched=fetches_events(given),
        strategy=chosen,
        options=given,
        budget=budget or _budget(mysis, policy, endpoint),
        dialect=endpoint.dialect if endpoint else "openai",
        tool_policy={tool["name"]: tool["policy"] for tool in tools},
        tools_tokens=tokens_of(tools, learnt),
        nudge=nudge(mysis.nudges + 1),
        model=mysis.model,
        compaction=compaction_of(mysis),
        calibration=learnt.factor,
        estimate_error=learnt.error,
    )


def compaction_of(mysis: Mysis) -> Compaction:
    """Whether a summary may be asked for now, and by which prompt."""
    known = compactions.standing(mysis.pk, turn=mysis.turn_count)
    return replace(known, prompt=current_prompt())


def system_prompt(mysis: Mysis, username: str | None) -> str:
    """The current version of the prompt with its placeholders filled (A10)."""
    version = mysis.prompt.current if mysis.prompt else None
    return filled(version.text if version else DEFAULT_PROMPT, mysis, username)


def filled(text: str, mysis: Mysis, username: str | None) -> str:
    """A prompt's text with its placeholders filled for a Mysis."""
    newest = Broadcast.objects.filter(from_mysis=False).order_by("-pk").first()
    return render_prompt(
        text,
        name=mysis.name,
        account=username,
        broadcast=shortened(newest.text) if newest else None,
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


def known_tools() -> list[dict[str, Any]]:
    """The tools that the game server offered last; none before the first turn."""
    row = ToolCatalogue.objects.filter(pk=settings.SPACEMOLT_MCP_URL).first()
    return list(row.tools) if row else []


def tools_of(mysis: Mysis) -> list[dict[str, Any]]:
    """The tools that the next call of a Mysis offers, as far as they are known."""
    tools = known_tools()
    if tools and mysis.messaging:
        tools += [described(FOR_MYSES[name].spec) for name in sorted(SENDING)]
    return tools


def remember_tools(specs: Iterable[ToolSpec]) -> None:
    """Keep the tools of the game server where they have changed.

    Those for sending are not kept: some Myses have them and some have not.
    """
    found = [described(spec) for spec in specs if spec.name not in SENDING]
    if found != known_tools():
        ToolCatalogue.objects.update_or_create(
            url=settings.SPACEMOLT_MCP_URL, defaults={"tools": found}
        )


def described(spec: ToolSpec) -> dict[str, Any]:
    """A tool as it is kept."""
    return {
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.parameters,
        "policy": spec.policy,
        "read_only": spec.read_only,
    }


def tokens_of(tools: Iterable[Mapping[str, Any]], learnt: Known) -> int:
    """What the tool schemas cost, as they go over the wire."""
    shown = [
        {key: tool[key] for key in ("name", "description", "parameters")}
        for tool in tools
    ]
    count = counter_for("estimate", learnt.factor)
    return count(json.dumps(shown)) if shown else 0
