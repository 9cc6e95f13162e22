"""Recorded calls, assembled anew under any policies, without a model.

Each policy goes its own way through the calls of a Mysis: what it had loaded, where its
view began and what it sent the time before are its own, so that it is as stable, and
shares as long a beginning, as it would have if it had been in use. What was said, done
and known is the same for all: log, summaries, notes, standing orders, the game's state.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q, QuerySet

from agents.context_inputs import (
    build_subject,
    count_turns_left,
    fit_budget,
    vary_tools,
)
from agents.dashboard.charts import find_first_turn_since
from agents.lab.call_figures import (
    FALLBACK,
    WHOLE,
    CallBase,
    CallFigures,
    CallPricing,
    list_whole,
    measure_view,
)
from agents.lab.policies import OWN, Policy
from agents.lab.retaken import find_endpoint
from agents.llm.model_types import Endpoint, read_longest_answer, read_token_prices
from agents.models import ModelCall, Mysis, OrderRecipient
from memory.assembly.log_rows import LAST, Standing
from memory.assembly.packing import unpack_ledger
from memory.assembly.past_calls import walk_calls
from memory.assembly.prepare import PreparedRequest, Subject, prepare_request
from memory.assembly.replay import PastCall, list_guesses
from memory.assembly.sent_view import (
    GONE,
    LastCall,
    read_last_call,
    render_messages,
)
from memory.assembly.turn_reads import TurnReads, share_past_reads
from memory.context.offered_tools import pick_tool_options
from memory.context.types import INTENT_ORIGINS, PEER, Budget
from memory.models import ContextPolicy, Memory, SentContext

NOT_KEPT = "Its prompt or its tools are no longer kept."
# A turn that takes longer may be missed at the beginning of a span.
LONGEST_TURN = timedelta(hours=6)
CHANGED = (
    "Something that is not kept with a call changed since: what a tool counts as, the "
    "text of a stored message, or how contexts are made."
)


@dataclass(frozen=True, slots=True)
class ReplayedCall:
    """A recorded call, and its figures by the name of the policy.

    ``differs`` says why its own policy does not give the recorded view, byte for byte.
    """

    sent: SentContext
    figures: dict[str, CallFigures]
    differs: str
    unknown: tuple[str, ...]


def select_calls(
    since: datetime | None, until: datetime | None
) -> QuerySet[SentContext]:
    """The recorded calls of a span of time; None for no bound."""
    rows = SentContext.objects.filter(call__kind=ModelCall.Kind.TURN)
    if since is not None:
        # By the turns, which an index finds, with those that had begun before.
        floor = find_first_turn_since(since - LONGEST_TURN)
        rows = rows.filter(created_at__gte=since, call__turn__gte=floor or LAST)
    return rows if until is None else rows.filter(created_at__lt=until)


def select_myses(mysis_id: int | None, label: str) -> QuerySet[Mysis]:
    """Whose calls are replayed: one, those of a group or with a tag, or all."""
    rows = Mysis.objects.order_by("pk")
    if mysis_id is not None:
        return rows.filter(pk=mysis_id)
    return rows.filter(Q(group=label) | Q(tags__contains=[label])) if label else rows


def replay_calls(
    myses: QuerySet[Mysis], calls: QuerySet[SentContext], policies: Sequence[Policy]
) -> Iterator[ReplayedCall]:
    """Each call of each Mysis, in their order, under its own policy and under these."""
    for mysis in myses.select_related("account", "policy", "prompt"):
        yield from _MysisReplay(mysis, policies).run(calls)


class _Lane:
    """One policy on its way through the calls of a Mysis.

    ``view`` is what it makes of the newest of them, ``before`` of the one before.
    """

    view: PreparedRequest

    def __init__(self, policy: Policy, mysis: Mysis, reads: TurnReads) -> None:
        self.policy = policy
        self.mysis = mysis
        self.reads = reads
        self.before: PreparedRequest | None = None
        self.asks = False
        self._newest: PreparedRequest | None = None
        self._tools: tuple[Subject, Subject] | None = None

    def assemble(
        self,
        past: PastCall,
        last: LastCall | None,
        at: Endpoint | None,
        inputs: Mapping[str, Any],
    ) -> None:
        """Make the view of a call; ``last`` is the recorded one before it.

        ``inputs`` are what of its subject is known otherwise than from the call.
        """
        self.before = self._newest
        self.reads.last = self._follow(last)
        subject = past.subject
        if self.policy.strategy:
            subject = replace(self._vary(subject, at), **inputs)
        self.view = prepare_request(subject, before=past.before, reads=self.reads)
        self._newest = self.view

    def forget_newest(self) -> None:
        """Go on from no view: what the newest one showed was taken back."""
        self._newest = None

    def measure(self, base: CallBase, pricing: CallPricing) -> CallFigures:
        """The figures of the view; of calls in a row that ask for a summary the first does."""
        found = measure_view(self.view, base, pricing, self.before)
        asked, self.asks = self.asks, found.asks_summary
        found.asks_summary = self.asks and not asked
        return found

    def _vary(self, own: Subject, at: Endpoint | None) -> Subject:
        """The subject of a call under the settings of this policy."""
        policy = self.policy
        changed = replace(
            own,
            strategy=policy.strategy,
            options=policy.options,
            budget=self._fit_budget(at) or own.budget,
        )
        if policy.keeps_tools:
            return replace(changed, options=pick_tool_options(own.options))
        if self._tools is None or not _have_same_tools(self._tools[0], own):
            self._tools = own, vary_tools(changed)
        made = self._tools[1]
        return replace(changed, offered=made.offered, tools_tokens=made.tools_tokens)

    def _fit_budget(self, at: Endpoint | None) -> Budget | None:
        """The budget of the policy within the window of the call's model."""
        policy = self.policy
        if policy.budget_tokens is None:
            return None
        asked = Budget(policy.budget_tokens, policy.budget_reserve)
        if at is None:
            return asked
        stored = ContextPolicy(budget_tokens=asked.tokens, budget_reserve=asked.reserve)
        return fit_budget(
            stored, at, read_longest_answer(self.mysis.model_settings, at)
        )

    def _follow(self, last: LastCall | None) -> LastCall | None:
        """The call before as if it had been made under this policy.

        What the provider reported of the recorded one holds for other views too (L8).
        """
        if last is None or not self.policy.strategy:
            return last
        made, sent = self.before, last.sent
        stats: dict[str, Any] = {
            "tokens_by_category": sent.stats.get("tokens_by_category")
        }
        values: dict[str, Any] = {"strategy": "", "first_id": None}
        shown: list[dict[str, Any]] = []
        if made is not None:
            stats["generation"] = made.assembly.stats["generation"]
            values = {"strategy": made.subject.strategy, "first_id": made.loaded.start}
            shown = made.assembly.messages
        row = SentContext(
            pk=sent.pk,
            mysis_id=sent.mysis_id,
            dialect=made.subject.dialect if made else sent.dialect,
            stats=stats,
            last_id=sent.last_id,
            **values,
        )
        return LastCall(row, last.model, last.tokens, shown, cached=last.cached)


def _have_same_tools(one: Subject, other: Subject) -> bool:
    same = one.offered is other.offered and one.tools_tokens == other.tools_tokens
    return same and one.learnt == other.learnt


class _MysisReplay:
    """The calls of one Mysis, under their own policies and others side by side."""

    def __init__(self, mysis: Mysis, policies: Sequence[Policy]) -> None:
        self.mysis = mysis
        self.now = build_subject(mysis)
        every = [Policy(OWN), *policies]
        reads = share_past_reads(len(every))
        self.lanes = [_Lane(policy, mysis, next(reads)) for policy in every]
        self.own = self.lanes[0]
        self.orders = _OrderTimes.read(mysis.pk)
        self.generation: int | None = None
        self._endpoints: dict[str, Endpoint | None] = {}

    def run(self, calls: QuerySet[SentContext]) -> Iterator[ReplayedCall]:
        last: LastCall | None = None
        standing: Standing | None = None
        for past in walk_calls(calls, self.now):
            if past.before.standing != standing:
                # At first, and where the call before may be of what was taken back.
                standing = past.before.standing
                last = read_last_call(self.mysis.pk, past.sent.pk, "", None, standing)
                for lane in self.lanes:
                    lane.forget_newest()
            yield self._replay(past, last)
            last = self._note(past)

    def _replay(self, past: PastCall, last: LastCall | None) -> ReplayedCall:
        sent = past.sent
        at = self._find_endpoint(sent.call.model)
        past = _set_prices(past, at)
        pause = sent.created_at - last.sent.created_at if last else None
        pricing = CallPricing(at, sent.call.output_tokens, pause)
        inputs = self._find_inputs(past)
        for lane in self.lanes:
            lane.assemble(past, last, at, inputs)
        own = self.own.view
        base = self._find_base(past, own)
        figures = {each.policy.name: each.measure(base, pricing) for each in self.lanes}
        figures[OWN].asks_summary |= self._was_compacted(sent)
        differs = "" if own.digest == sent.digest else _explain(past, own)
        return ReplayedCall(sent, figures, differs, past.unknown)

    def _find_inputs(self, past: PastCall) -> dict[str, Any]:
        """What one message tells beside the log, where the call was no such message.

        The mission is the oldest order that was open then, else the standing orders.
        """
        sent, pins = past.sent, past.subject.pins
        if "inputs" in sent.stats:
            return {}
        waiting = self.orders.list_waiting(sent, past.before.standing)
        mission = "\n".join(pins) or None
        if waiting:
            mission = self.orders.read_text(waiting[0])
        left = self.mysis.max_iterations - sent.call.number + 1
        return {
            "mission": mission,
            "mission_id": waiting[0] if waiting else None,
            "open_orders": waiting,
            "turns_left": count_turns_left(left),
        }

    def _find_base(self, past: PastCall, own: PreparedRequest) -> CallBase:
        """What the recorded call had, by its ledger."""
        if own.digest == past.sent.digest:
            whole = list_whole(own.assembly)
        else:
            lines = unpack_ledger(past.sent.ledger, past.sent.mysis_id)
            whole = frozenset(x["id"] for x in lines if x["disposition"] in WHOLE)
        rows = own.request.messages
        answers = {m.id for m in rows if m.role == "tool" and not m.is_error}
        return CallBase(
            answers=whole & answers,
            orders=self.orders.find_open(past.sent, past.before.standing),
            state=past.before.state or "",
            values=len(past.sent.facts),
        )

    def _was_compacted(self, sent: SentContext) -> bool:
        """Whether a new summary stands in a recorded view for the first time."""
        before, self.generation = self.generation, sent.stats.get("generation", 0)
        return before is not None and self.generation > before

    def _note(self, past: PastCall) -> LastCall:
        """A recorded call, as the one before the next."""
        own, call = self.own.view, past.sent.call
        same = own.digest == past.sent.digest
        shown = own.assembly.messages if same else render_messages(past.sent)[0]
        cached = call.cached_tokens
        return LastCall(past.sent, call.model, call.input_tokens, shown, cached=cached)

    def _find_endpoint(self, model: str) -> Endpoint | None:
        if model not in self._endpoints:
            self._endpoints[model] = find_endpoint(model)
        return self._endpoints[model]


def _set_prices(past: PastCall, at: Endpoint | None) -> PastCall:
    """The call with the prices of its own model, by which summaries are judged."""
    prices = read_token_prices(at) if at else None
    compaction = replace(past.subject.compaction, prices=prices)
    return replace(past, subject=replace(past.subject, compaction=compaction))


def _explain(past: PastCall, own: PreparedRequest) -> str:
    """Why a call does not come out as it was sent, in sentences."""
    sent = past.sent
    lines = unpack_ledger(sent.ledger, sent.mysis_id)
    known = replace(past, shown=replace(past.shown, ledger=lines))
    found = [*past.unknown, *list_guesses(known)]
    texts = [past.subject.system or "", *past.subject.pins]
    if any(GONE in text for text in texts) or _lacks_tools(past):
        found.append(NOT_KEPT)
    if own.assembly.status == FALLBACK and sent.stats.get("status") != FALLBACK:
        found.append(own.assembly.reason)
    return " ".join(found or [CHANGED])


def _lacks_tools(past: PastCall) -> bool:
    offered = past.subject.offered
    return offered is not None and not offered.known


# --- Orders, by when they were open


@dataclass(frozen=True, slots=True)
class _OrderTimes:
    """The messages of a Mysis that are orders, and until when each was open.

    ``given`` are all, oldest first; ``ended`` those of which it is known that somebody
    had to report them, and when that was done, None where it was not; ``taken`` those
    that were taken back, and by which branch.
    """

    given: list[int]
    ended: Mapping[int, datetime | None]
    taken: Mapping[int, int]
    _texts: dict[int, str] = field(default_factory=dict)

    @classmethod
    def read(cls, mysis_id: int) -> _OrderTimes:
        rows = Memory.objects.filter(mysis_id=mysis_id, origin__in=INTENT_ORIGINS)
        rows = rows.exclude(sender__startswith=PEER).order_by("pk")
        given = list(rows.values_list("pk", "branch_id"))
        reports = OrderRecipient.objects.filter(mysis_id=mysis_id, memory__isnull=False)
        ended = {
            memory: None if state in OrderRecipient.OPEN else at
            for memory, state, at in reports.order_by("pk").values_list(
                "memory_id", "state", "changed_at"
            )
        }
        taken = {pk: branch for pk, branch in given if branch is not None}
        return cls([pk for pk, _ in given], ended, taken)

    def find_open(self, sent: SentContext, standing: Standing) -> frozenset[int]:
        """Those that were open when a call was made, and the newest that stood."""
        place = bisect_right(self.given, sent.last_id or 0)
        while place and not self._stood(self.given[place - 1], standing):
            place -= 1
        newest = self.given[max(0, place - 1) : place]
        return frozenset((*self.list_waiting(sent, standing), *newest))

    def list_waiting(self, sent: SentContext, standing: Standing) -> tuple[int, ...]:
        """Those that somebody had to report when a call was made, oldest first."""
        through, at = sent.last_id or 0, sent.created_at
        return tuple(
            number
            for number, ended in sorted(self.ended.items())
            if number <= through
            and (ended is None or ended > at)
            and self._stood(number, standing)
        )

    def read_text(self, number: int) -> str:
        """The words of one of them."""
        if number not in self._texts:
            rows = Memory.objects.filter(pk=number)
            self._texts[number] = rows.values_list("content", flat=True).first() or ""
        return self._texts[number]

    def _stood(self, number: int, standing: Standing) -> bool:
        return standing.has(number, self.taken.get(number))
