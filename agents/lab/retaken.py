"""Calls that were made, assembled anew as they were but for one setting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from time import monotonic
from types import EllipsisType
from typing import Any

from agents.actions.base import ActionError
from agents.context_inputs import build_subject, read_inputs, vary_subject
from agents.llm.endpoints import resolve
from agents.llm.model_types import Endpoint, ModelError, Usage
from agents.models import Mysis, Prompt
from memory.assembly.prepare import PreparedRequest, Subject, prepare_request
from memory.assembly.replay import NO_STATE, PastCall, load_past_call
from memory.context import registry
from memory.context.report import count_shared_bytes
from memory.context.summaries import SummaryOptions
from memory.context.tokens import choose_counter
from memory.context.wire import Messages, encode_message
from memory.models import ContextPolicy, SentContext

# Seconds after which no other call is assembled anew.
SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Setting:
    """What is tried on Myses; what is `...` or empty stays as each of them has it.

    ``text`` stands in the place of its prompt's.
    """

    policy: ContextPolicy | EllipsisType | None = ...
    prompt: Prompt | EllipsisType | None = ...
    text: str | None = None
    model: str = ""

    def apply(self, mysis: Mysis) -> Mysis:
        """The Mysis as it would be; nothing is stored."""
        tried = copy(mysis)
        if self.policy is not ...:
            tried.policy = self.policy
        if self.prompt is not ...:
            tried.prompt = self.prompt
        tried.model = self.model or tried.model
        return tried

    @property
    def changes_prompt(self) -> bool:
        return self.text is not None or self.prompt is not ...


@dataclass(frozen=True, slots=True)
class ReassembledCall:
    """One call as it was and as it would have been, in tokens and US dollars.

    ``cacheable`` are the tokens that the provider may know from the call before it.
    """

    was: Usage
    was_cacheable: float
    input: float
    cacheable: float
    endpoint: Endpoint | None
    was_endpoint: Endpoint | None
    fits: bool = True
    wants_summary: bool = False
    lacks_state: bool = False
    summarises: bool = False


def retake_calls(
    myses: Sequence[Mysis], setting: Setting, ids: Sequence[int], *, replays: bool
) -> Iterable[ReassembledCall]:
    """The calls of these contexts as they would have been, while the time lasts.

    One whose own strategy or options are gone meanwhile is left out. With ``replays`` the call
    before each is assembled anew as well, since a cache knows what both have in common.
    """
    by_id = {mysis.pk: mysis for mysis in myses}
    known: dict[int, tuple[Subject, Subject]] = {}
    rows = SentContext.objects.select_related("call")
    began = monotonic()
    for place in _spread(len(ids)):
        sent = rows.filter(pk=ids[place]).first()
        if sent is None:  # pruned meanwhile
            continue
        if sent.mysis_id not in known:
            known[sent.mysis_id] = _build_subjects(by_id[sent.mysis_id], setting)
        with suppress(ActionError):
            yield _retake(sent, *known[sent.mysis_id], setting, replays=replays)
        if monotonic() - began > SECONDS:
            return


def _spread(count: int) -> list[int]:
    """Places in an order of which any beginning is spread over all of them."""
    digits = max(1, count - 1).bit_length()
    return sorted(range(count), key=lambda place: f"{place:0{digits}b}"[::-1])


def _build_subjects(mysis: Mysis, setting: Setting) -> tuple[Subject, Subject]:
    """What the next call is made of as it is, and as it would be."""
    tried = setting.apply(mysis)
    inputs = read_inputs(tried)
    if setting.text is not None:
        inputs = replace(inputs, prompt=setting.text)
    return build_subject(mysis), build_subject(tried, inputs=inputs)


def _retake(
    sent: SentContext, now: Subject, then: Subject, setting: Setting, *, replays: bool
) -> ReassembledCall:
    past = load_past_call(sent, now)
    made = _assemble(past, then, setting)
    was = Usage(
        sent.call.input_tokens, sent.call.output_tokens, sent.call.cached_tokens
    )
    counted = sum(sent.stats.get("tokens_by_category", {}).values())
    assembly = made.assembly
    tokens = sum(assembly.stats["tokens_by_category"].values())
    same = not setting.model or setting.model == sent.call.model
    # What our count missed of the call then, it misses of it now.
    read = tokens * was.input / counted if same and counted else tokens
    share = 0.0
    if replays and same:
        share = _find_shared(sent, now, then, setting, assembly.messages)
    state = NO_STATE in past.unknown and then.options.get("state_block", True)
    return ReassembledCall(
        was=was,
        was_cacheable=_count_cacheable(
            was.input, sent.stats, _share_as_sent(sent, past.shown.messages)
        ),
        input=read,
        cacheable=_count_cacheable(read, assembly.stats, share),
        endpoint=find_endpoint(setting.model or sent.call.model),
        was_endpoint=find_endpoint(sent.call.model),
        fits=bool(assembly.messages),
        wants_summary=assembly.summary_wanted is not None,
        lacks_state=bool(state),
        summarises=_makes_summaries(made.subject),
    )


def _makes_summaries(subject: Subject) -> bool:
    strategy = subject.strategy or registry.DEFAULT
    options = registry.validate_options(strategy, subject.options)
    return isinstance(options, SummaryOptions) and bool(options.threshold)


def _assemble(past: PastCall, then: Subject, setting: Setting) -> PreparedRequest:
    return prepare_request(_vary(past.subject, then, setting), before=past.before)


def _vary(past: Subject, then: Subject, setting: Setting) -> Subject:
    """A call's subject with what the setting changes taken from another one."""
    varied = replace(past, system=then.system) if setting.changes_prompt else past
    if setting.model:
        varied = replace(
            varied,
            model=then.model,
            dialect=then.dialect,
            learnt=then.learnt,
            compaction=then.compaction,
        )
        if varied.offered is not None:
            count = choose_counter("estimate", then.learnt.factor)
            tokens = varied.offered.count_tokens(count)
            varied = replace(varied, tools_tokens=tokens)
    if setting.policy is not ...:
        return vary_subject(varied, then.strategy, then.options, then.budget)
    return vary_subject(varied, budget=then.budget if setting.model else None)


def _find_shared(
    sent: SentContext,
    now: Subject,
    then: Subject,
    setting: Setting,
    messages: Messages,
) -> float:
    """The share of a view that the one before would have had too."""
    rows = SentContext.objects.select_related("call")
    before = rows.filter(mysis_id=sent.mysis_id, pk__lt=sent.pk).order_by("-pk").first()
    if before is None:
        return 0.0
    made = _assemble(load_past_call(before, now), then, setting)
    return count_shared_bytes(made.assembly.messages, messages) / _measure(messages)


def _share_as_sent(sent: SentContext, messages: Messages) -> float:
    shared: int = sent.stats.get("prefix_shared_bytes", 0)
    return shared / _measure(messages)


def _measure(messages: Messages) -> int:
    return sum(len(encode_message(message)) for message in messages) or 1


def _count_cacheable(read: float, stats: Mapping[str, Any], share: float) -> float:
    """Tokens of a request that may be known: the tools, and so much of the messages."""
    categories = stats.get("tokens_by_category", {})
    whole = sum(categories.values())
    tools = categories.get("tools", 0) / whole if whole and share else 0.0
    return read * (tools + (1 - tools) * share)


def find_endpoint(model: str) -> Endpoint | None:
    """Where a model is reached; None where it cannot be."""
    try:
        return resolve(model)
    except ModelError:
        return None
