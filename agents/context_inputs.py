"""What a Mysis's context depends on beside its log and its game: prompt, pins, policy, tools.

`build_subject` is what the turn takes and `preview_context` what pages and API show, so
both come from one place. Every call reads anew, so that an edited prompt counts from the
next call on; a catalogue of tools is tens of kilobytes that hardly ever change, so what
is derived from its text is kept in the process, by that text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from django.conf import settings

from agents import db, statements
from agents.actions.base import ActionError
from agents.actions.settings import SUMMARY_PROMPT_NAME
from agents.llm.endpoints import resolve
from agents.llm.model_types import Endpoint, ModelError, read_longest_answer
from agents.llm.prompts import (
    DEFAULT_PROMPT,
    OpenOrders,
    choose_nudge,
    name_open_orders,
    render_prompt,
)
from agents.models import Mysis, ToolCatalogue
from agents.tools.own_tools import FOR_MYSES, REPORTING, SENDING
from agents.tools.request import ToolSpec
from memory.assembly.history_summaries import judge_compaction
from memory.assembly.prepare import PreparedRequest, Subject, prepare_request
from memory.calibration import TokenFactor, parse_factor
from memory.context import registry
from memory.context.offered_tools import offer_tools, pick_tool_options
from memory.context.tokens import choose_counter
from memory.context.types import TOOL_MODES, Budget, Note, OfferedTools
from memory.models import ContextPolicy, HistorySummary, fetch_named
from memory.notes import parse_notes
from memory.snapshots.reads import fetches_events

NOTHING = "[]"
KEPT = 32
Described = dict[str, Any]
# The tools that were compared last with the stored list, and when that was stored.
_compared: tuple[datetime, list[ToolSpec]] | None = None
# The text of the stored list that was read last, and when it was stored.
_read_catalogue: tuple[datetime | None, str] = (None, NOTHING)
RESERVE = Budget().reserve
RESERVE_SHARE = 4


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
    named with number and text; ``first_order`` is the first message of a person.
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
    first_order: tuple[int, str] | None

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
            _keep_catalogue(row["catalogue_at"], row["catalogue"]),
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
        the newest. With the id of the stored message that it is, None where it is none.
        """
        if self.pins and self.mission_order is None:
            return "\n".join(text for text, _ in self.pins), None
        number, text = self.mission_order or self.first_order or (None, None)
        return text, number


def name_inputs() -> dict[str, Any]:
    """The parameters of inputs that are the same for all Myses.

    The tools are read again only where they were stored anew.
    """
    return {
        "template": SUMMARY_PROMPT_NAME,
        "url": settings.SPACEMOLT_MCP_URL,
        "known_at": _read_catalogue[0],
    }


def _keep_catalogue(stored_at: datetime | None, text: str | None) -> str:
    """The stored list of tools; no ``text`` is that of the one which was read last."""
    global _read_catalogue
    if stored_at is None:
        return NOTHING
    if text is not None:
        _read_catalogue = stored_at, text
    return _read_catalogue[1]


def preview_context(
    mysis: Mysis,
    *,
    strategy: str | None = None,
    options: Mapping[str, object] | None = None,
    budget: Budget | None = None,
) -> PreparedRequest:
    """What the next call would be sent; writes nothing. Raises as `vary_subject`."""
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
    return _vary_tools(changed)


def _vary_tools(subject: Subject) -> Subject:
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
    more = choose_more_tools(mysis, reports=inputs.reportable.total > 0)
    offered = _offer_stored(
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
        tool_policy={
            tool["name"]: tool["policy"] for tool in _tools(inputs.catalogue, more=more)
        }
        | dict(inputs.tool_policies),
        tools_tokens=offered.tokens,
        offered=offered.tools,
        nudge=choose_nudge(mysis.nudges + 1, name_open_orders(*inputs.reportable)),
        model=mysis.model,
        compaction=replace(
            judge_compaction(inputs.tried, turn=mysis.turn_count),
            prompt=inputs.template,
        ),
        learnt=inputs.learnt,
        mission=mission,
        mission_id=mission_id,
        open_orders=inputs.open_orders,
        turns_left=count_turns_left(mysis.max_iterations - inputs.calls_made),
        max_turns=mysis.max_iterations,
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


def choose_more_tools(mysis: Mysis, *, reports: bool) -> tuple[str, ...]:
    """Those of our own tools that some Myses are offered, for this one."""
    sending = sorted(SENDING) if mysis.messaging else ()
    return (*sending, *(sorted(REPORTING) if reports else ()))


def read_known_tools(*, messaging: bool = False) -> list[Described]:
    """The tools that the game offered last, ``messaging`` too; none before a turn."""
    row = db.fetch_row(statements.TOOL_CATALOGUE, [settings.SPACEMOLT_MCP_URL])
    more = tuple(sorted(SENDING)) if messaging else ()
    tools = list(_tools(row[0] if row else NOTHING, more=more))
    policies = json.loads(row[2] or "{}") if row else {}
    return [
        tool | {"policy": policies.get(tool["name"], tool["policy"])} for tool in tools
    ]


def tools_are_stored(specs: Iterable[ToolSpec], stored_at: datetime | None) -> bool:
    """Whether the list that was ``stored_at`` a moment is known to be of these tools."""
    return _compared is not None and _compared == (stored_at, _select_stored(specs))


def remember_tools(specs: Iterable[ToolSpec]) -> None:
    """Store the tools of the game server where they have changed."""
    global _compared
    offered = _select_stored(specs)
    found = [asdict(spec) for spec in offered]
    row = db.fetch_row(statements.TOOL_CATALOGUE, [settings.SPACEMOLT_MCP_URL])
    if row is None or found != json.loads(row[0]):
        kept, _ = ToolCatalogue.objects.update_or_create(
            url=settings.SPACEMOLT_MCP_URL, defaults={"tools": found}
        )
        stored_at = kept.updated_at
    else:
        stored_at = row[1]
    _compared = stored_at, offered


def _select_stored(specs: Iterable[ToolSpec]) -> list[ToolSpec]:
    # Those that some Myses are offered and some are not are not stored.
    return [spec for spec in specs if spec.name not in SENDING | REPORTING]


class _CountedTools(NamedTuple):
    tools: OfferedTools | None
    tokens: int


@lru_cache(maxsize=KEPT)
def _offer_stored(
    text: str,
    *,
    more: tuple[str, ...],
    options: tuple[str, tuple[str, ...] | None],
    factor: float,
) -> _CountedTools:
    """The stored list as it is offered, None where there is none yet, and its tokens."""
    known = [
        {key: tool[key] for key in ("name", "description", "parameters")}
        for tool in _tools(text, more=more)
    ]
    if not known:
        return _CountedTools(None, 0)
    offered = offer_tools(known, *options)
    tokens = offered.count_tokens(choose_counter("estimate", factor))
    return _CountedTools(offered, tokens)


@lru_cache(maxsize=KEPT)
def _tools(text: str, *, more: tuple[str, ...]) -> tuple[Described, ...]:
    """The stored list with ``more`` of our own; nothing where none is stored."""
    tools = tuple(json.loads(text))
    if tools:
        tools += tuple(asdict(FOR_MYSES[name].spec) for name in more)
    return tools
