"""What a Mysis's context depends on beside its log and its game: prompt, pins, policy, tools.

`build_subject` is what the turn takes and `preview_context` what pages and API show, so
both come from one place. Every call reads anew, so that an edited prompt counts from the
next call on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

from django.conf import settings

from agents import process_memory, statements, tool_catalogue
from agents.actions.base import ActionError
from agents.actions.settings import SUMMARY_PROMPT_NAME
from agents.llm.endpoints import resolve
from agents.llm.model_types import (
    Endpoint,
    ModelError,
    read_longest_answer,
    read_token_prices,
)
from agents.llm.prompts import (
    DEFAULT_PROMPT,
    OpenOrders,
    choose_nudge,
    name_open_orders,
    render_prompt,
)
from agents.models import Mysis
from memory.assembly.history_summaries import judge_compaction
from memory.assembly.prepare import PreparedRequest, Subject, prepare_request
from memory.calibration import TokenFactor, parse_factor
from memory.concurrency import ConcurrencyLimit
from memory.context import registry
from memory.context.offered_tools import (
    describe_tool,
    offer_tools,
    pick_tool_options,
)
from memory.context.tokens import choose_counter
from memory.context.types import TOOL_MODES, Budget, Compaction, Note, OfferedTools
from memory.models import ContextPolicy, HistorySummary, fetch_named
from memory.notes import parse_notes
from memory.snapshots.reads import fetches_events

RESERVE = Budget().reserve
RESERVE_SHARE = 4
# The mission where what was ordered has ended: what it is stands in the prompt.
STANDING_MISSION = "No order is open: go on with your standing mission."


class _Previews(ConcurrencyLimit):
    """Places for contexts that are put together for whoever looks at them."""

    @contextmanager
    def taken(self, seconds: float | None = None) -> Iterator[None]:
        """Hold a place; what large contexts took of memory goes back afterwards."""
        with super().taken(seconds):
            try:
                yield
            finally:
                process_memory.collect_large()


previews = _Previews(
    2, seconds=10, refusal="Other contexts are being put together: not shown."
)


@dataclass(frozen=True, slots=True)
class ContextInputs:
    """What a context depends on, as it is stored.

    ``prompt`` is the current version's text, None where there is none; ``template``
    that of the summaries, empty for the built-in one; ``broadcast`` the newest of a
    person that is for it; ``pins`` are texts with their SHA-256; ``notes`` come newest
    first; ``tool_policies`` were set by hand; ``tried`` are the newest summaries,
    ``summary`` the one in use.
    ``calls_made`` are those of the turn that goes on that were not refused,
    ``open_orders`` the messages that are open orders, of which ``mission_order`` is the
    one to go on with, with its id; ``reportable`` are so many orders, those that are
    named with number and text; ``first_order`` is the first message of a person, and
    whether it is an order that has ended.
    """

    prompt: str | None
    template: str
    broadcast: str | None
    pins: tuple[tuple[str, str], ...]
    notes: tuple[Note, ...]
    tool_policies: tuple[tuple[str, str], ...]
    catalogue: str
    learnt: TokenFactor
    tried: tuple[HistorySummary, ...]
    summary: HistorySummary | None
    calls_made: int
    open_orders: tuple[int, ...]
    mission_order: tuple[int, str] | None
    reportable: OpenOrders
    first_order: tuple[int, str, bool] | None

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> ContextInputs:
        """From the columns that a statement with `name_inputs` gives."""
        waiting, first = json.loads(row["open_orders"]), row["first_order"]
        return cls(
            row["prompt_text"],
            row["template"] or "",
            row["broadcast"],
            tuple((text, digest) for text, digest in row["pinned"]),
            parse_notes(json.loads(row["notes"])),
            tuple(sorted(json.loads(row["tool_policies"] or "{}").items())),
            tool_catalogue.keep_text(row["catalogue_at"], row["catalogue"]),
            parse_factor(row["calibration"]),
            tuple(HistorySummary(**one) for one in json.loads(row["tried"] or "[]")),
            HistorySummary(**json.loads(row["summary"])) if row["summary"] else None,
            row["calls_made"] or 0,
            tuple(waiting["ids"]),
            tuple(waiting["mission"]) if waiting["mission"] else None,
            OpenOrders(**json.loads(row["reportable"])),
            tuple(json.loads(first)) if first else None,
        )

    def choose_mission(self) -> tuple[str | None, int | None]:
        """The order to go on with, else the standing orders, else the first message.

        That order is the oldest which no turn has answered. One that was answered and
        never reported does not stand before a newer one: where all are answered, it is
        the newest. A first message that is an order and has ended is no mission. With
        the id of the stored message that it is, None where it is none.
        """
        if self.mission_order is not None:
            number, text = self.mission_order
            return text, number
        if self.pins:
            return "\n".join(text for text, _ in self.pins), None
        if self.first_order is None:
            return None, None
        number, text, ended = self.first_order
        return (STANDING_MISSION, None) if ended else (text, number)


def name_inputs() -> dict[str, Any]:
    """The parameters of inputs that are the same for all Myses.

    The tools are read again only where they were stored anew.
    """
    return {
        "template": SUMMARY_PROMPT_NAME,
        "url": settings.SPACEMOLT_MCP_URL,
        "known_at": tool_catalogue.get_read_at(),
    }


def preview_context(
    mysis: Mysis,
    *,
    strategy: str | None = None,
    options: Mapping[str, object] | None = None,
    budget: Budget | None = None,
) -> PreparedRequest:
    """`assemble_preview` in a place among the few; raises a 503 Problem without one."""
    with previews.taken():
        return assemble_preview(
            mysis, strategy=strategy, options=options, budget=budget
        )


def assemble_preview(
    mysis: Mysis,
    *,
    strategy: str | None = None,
    options: Mapping[str, object] | None = None,
    budget: Budget | None = None,
) -> PreparedRequest:
    """What the next call would be sent; writes nothing. Raises as `vary_subject`.

    It is for whoever has a place of `previews`, until the context is drawn.
    """
    return prepare_request(
        vary_subject(build_subject(mysis), strategy, options, budget)
    )


def vary_subject(
    subject: Subject,
    strategy: str | None = None,
    options: Mapping[str, object] | None = None,
    budget: Budget | None = None,
) -> Subject:
    """A subject under other settings; what is None stays as it is.

    Raises ActionError 422 for an unknown strategy or a bad option.
    """
    # Options belong to a strategy: another starts from its defaults, with these tools.
    same = strategy is None or strategy == subject.strategy
    kept = subject.options if same else pick_tool_options(subject.options)
    chosen, given = strategy or subject.strategy, kept if options is None else options
    try:
        registry.validate_options(chosen or registry.DEFAULT, given)
    except (ValueError, TypeError) as error:
        raise ActionError(str(error), code="invalid", status=422) from error
    changed = replace(
        subject,
        strategy=chosen,
        options=given,
        fetched=fetches_events(given),
        budget=budget or subject.budget,
    )
    return vary_tools(changed)


def vary_tools(subject: Subject) -> Subject:
    """The subject with the tools that its options offer."""
    offered = subject.offered
    if offered is None:
        return subject
    mode, allow = read_tool_options(subject.options)
    if (mode, allow) == (offered.mode, offered.allow):
        return subject
    offered = offer_tools(offered.known, mode, allow)
    count = choose_counter("estimate", subject.learnt.factor)
    return replace(subject, offered=offered, tools_tokens=offered.count_tokens(count))


def read_tool_options(
    options: Mapping[str, object],
) -> tuple[str, tuple[str, ...] | None]:
    """The mode and the allow-list of stored options.

    They are checked when they are saved; what is no list of names allows nothing.
    """
    mode, allow = options.get("tools"), options.get("allow")
    if allow is not None:
        allow = tuple(map(str, allow)) if isinstance(allow, (list, tuple)) else ()
    return (mode if mode in TOOL_MODES else TOOL_MODES[0]), allow


def build_subject(
    mysis: Mysis,
    *,
    inputs: ContextInputs | None = None,
    endpoint: Endpoint | None = None,
) -> Subject:
    """Everything about a Mysis that its context depends on, beside the log.

    ``inputs`` and ``endpoint`` are those of a turn that has them already.
    """
    policy = mysis.effective_policy
    inputs = inputs or read_inputs(mysis)
    prompt = DEFAULT_PROMPT if inputs.prompt is None else inputs.prompt
    endpoint = endpoint or _endpoint(mysis)
    answer = read_longest_answer(mysis.model_settings, endpoint)
    budget = fit_budget(policy, endpoint, answer)
    username = mysis.account.username if mysis.account else None
    more = tool_catalogue.choose_more_tools(mysis, reports=inputs.reportable.total > 0)
    offered = offer_stored_tools(
        inputs.catalogue,
        more=more,
        options=read_tool_options(policy.options),
        factor=inputs.learnt.factor,
    )
    mission, mission_id = inputs.choose_mission()
    return Subject(
        mysis_id=mysis.pk,
        name=mysis.name,
        system=render_prompt(
            prompt, name=mysis.name, account=username, broadcast=inputs.broadcast
        ),
        pins=tuple(text for text, _ in inputs.pins),
        pin_hashes=tuple(digest for _, digest in inputs.pins),
        notes=inputs.notes,
        username=username,
        fetched=fetches_events(policy.options),
        strategy=policy.strategy,
        options=policy.options,
        budget=narrow_budget(budget, mysis.narrowed_view()),
        dialect=endpoint.dialect if endpoint else "openai",
        tool_policy=_list_policies(inputs, more),
        tools_tokens=offered.tokens,
        offered=offered.tools,
        nudge=choose_nudge(mysis.nudges + 1, name_open_orders(*inputs.reportable)),
        model=mysis.model,
        compaction=_plan_compaction(inputs, endpoint, mysis.turn_count),
        learnt=inputs.learnt,
        mission=mission,
        mission_id=mission_id,
        open_orders=inputs.open_orders,
        turns_left=count_turns_left(mysis.max_iterations - inputs.calls_made),
        max_turns=mysis.max_iterations,
    )


def _list_policies(inputs: ContextInputs, more: tuple[str, ...]) -> dict[str, str]:
    """What each tool counts as; what was set by hand stands above the rest."""
    known = tool_catalogue.list_tools(inputs.catalogue, more=more)
    return {tool["name"]: tool["policy"] for tool in known} | dict(inputs.tool_policies)


def _plan_compaction(
    inputs: ContextInputs, endpoint: Endpoint | None, turn: int
) -> Compaction:
    return replace(
        judge_compaction(inputs.tried, turn=turn),
        prompt=inputs.template,
        prices=read_token_prices(endpoint) if endpoint else None,
    )


def count_turns_left(calls: int) -> int:
    """What a view says of so many calls left with its own: 0 is the final one (C10)."""
    return calls if calls > 1 else 0


def read_inputs(mysis: Mysis) -> ContextInputs:
    """Read the inputs of one Mysis, in one query."""
    own = {
        "prompt": mysis.prompt_id,
        "mysis": mysis.pk,
        "model": mysis.model,
        "group": mysis.group,
        "tags": mysis.tags,
        "heard": mysis.heard,
    }
    [row] = fetch_named(statements.CONTEXT_INPUTS, own | name_inputs())
    return ContextInputs.read(row)


def fit_budget(
    policy: ContextPolicy, endpoint: Endpoint | None, answer: int = 0
) -> Budget:
    """The policy's budget; with the answer's tokens never more than the window.

    Providers refuse a request whose ``max_tokens`` go beyond the window together with
    the context. Where they leave next to nothing, a part of it is kept all the same.
    """
    window = endpoint.window if endpoint else Budget().tokens
    tokens = min(policy.budget_tokens, window)
    least = tokens // RESERVE_SHARE
    reserve = max(min(policy.budget_reserve, least), tokens + answer - window)
    return Budget(tokens, min(reserve, tokens - least))


def narrow_budget(budget: Budget, within: int) -> Budget:
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


class CountedTools(NamedTuple):
    """Tools as they are offered, and what that costs in tokens."""

    tools: OfferedTools | None
    tokens: int


@lru_cache(maxsize=tool_catalogue.KEPT)
def offer_stored_tools(
    text: str,
    *,
    more: tuple[str, ...] = (),
    options: tuple[str, tuple[str, ...] | None],
    factor: float = 1.0,
) -> CountedTools:
    """The stored list as it is offered, None where there is none yet, and its tokens."""
    known = [*map(describe_tool, tool_catalogue.list_tools(text, more=more))]
    if not known:
        return CountedTools(None, 0)
    offered = offer_tools(known, *options)
    tokens = offered.count_tokens(choose_counter("estimate", factor))
    return CountedTools(offered, tokens)
