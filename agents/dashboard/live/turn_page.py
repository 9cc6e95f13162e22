"""One turn as its page shows it and as it goes on: its figures, calls and messages."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from agents.dashboard import charts
from agents.dashboard.live import fragments
from agents.dashboard.live.changes import Dirty
from agents.dashboard.live.fragments import (
    Fragment,
    SentVersions,
    draw_fragment,
    draw_template,
)
from agents.dashboard.live.pages import ConversationFeed
from agents.dashboard.shared_results import Keyed
from agents.dashboard.troubles import Fix, find_fixes, load_provider_ids
from agents.models import ModelCall, Turn
from memory.models import SentContext

# Calls that are listed at once, of a thousand there may be.
LISTED = 50
# Lines of messages.
LINES = 200
DRAWN = 512
# A call is opened without an event: seconds after which one is looked for, soon after
# an event of this Mysis and seldom otherwise.
SOON, SELDOM = 1.0, 10.0


@dataclass(frozen=True, slots=True)
class CallItem:
    """A model call of a turn; ``sent`` is what it was sent, if that was kept.

    ``ended`` says that it came to an end, good or bad, ``open`` that this is still
    waited for.
    """

    call: ModelCall
    sent: SentContext | None
    gauge: charts.Gauge | None
    ended: bool
    open: bool

    @property
    def summary(self) -> bool:
        return self.call.kind == ModelCall.Kind.SUMMARY

    @property
    def id(self) -> str:
        return f"{'summary' if self.summary else 'call'}-{self.call.number}"


@dataclass(frozen=True, slots=True)
class CallPage:
    """Calls in their order; ``older`` says whether there are some before them."""

    made: Sequence[CallItem]
    older: bool = False


def load_call_page(turn: Turn, before: int | None = None) -> CallPage:
    """The newest calls of a turn, or the newest of those before one."""
    rows = ModelCall.objects.filter(turn=turn).order_by("-pk")
    if before is not None:
        rows = rows.filter(pk__lt=before)
    found = list(rows[: LISTED + 1])
    newest = _make_items(turn, found[LISTED - 1 :: -1])
    return CallPage(newest, older=len(found) > LISTED)


def _make_items(turn: Turn, calls: Iterable[ModelCall]) -> list[CallItem]:
    """Calls with what is kept of their contexts, without the payloads."""
    found = list(calls)
    rows = SentContext.objects.filter(call__in=found).defer("ledger", "view", "facts")
    sent = {row.call_id: row for row in rows}
    return [_item(turn, call, sent.get(call.pk)) for call in found]


def _item(turn: Turn, call: ModelCall, sent: SentContext | None) -> CallItem:
    ended = bool(call.finish_reason or call.error or call.latency_ms)
    gauge = charts.make_gauge(sent.stats) if sent else None
    return CallItem(call, sent, gauge, ended, open=not ended and turn.outcome is None)


def draw_calls(turn: Turn, made: Iterable[CallItem]) -> list[Fragment]:
    """Each call as the inside of an item."""
    return [Fragment(one.id, _draw_call(turn, one), "call-row") for one in made]


def _draw_call(turn: Turn, made: CallItem) -> SafeString:
    if not made.ended:
        return draw_template("turn/call", item=made, turn=turn)
    call, sent = made.call, made.sent
    shown = (
        turn.pk, made.id, call.model, call.input_tokens, call.output_tokens,
        call.cached_tokens, call.latency_ms, call.cost, call.finish_reason, call.error,
        made.gauge, sent and sent.strategy,
    )  # fmt: skip
    return _draw_ended_call(Keyed(shown, (turn, made)))


@lru_cache(maxsize=DRAWN)
def _draw_ended_call(asked: Keyed[tuple[Turn, CallItem]]) -> SafeString:
    turn, made = asked.value
    return draw_template("turn/call", item=made, turn=turn)


def draw_call_list(turn: Turn, page: CallPage, parts: Sequence[Fragment]) -> Fragment:
    """Calls of a page, with a way to those before them."""
    if not parts:
        return Fragment("turn-calls", draw_template("turn/no_call", turn=turn))
    first = page.made[0].call.pk if page.older else None
    return draw_fragment("turn/calls", older=first, items=draw_items(parts))


def draw_items(parts: Iterable[Fragment]) -> SafeString:
    """Calls as items of their list."""
    return format_html_join(
        "", '<li class="{}" {}>{}</li>', ((p.css, p.at, p.html) for p in parts)
    )


def find_turn(turn_id: int) -> Turn | None:
    rows = Turn.objects.select_related("mysis", "mysis__account")
    return rows.filter(pk=turn_id).first()


def draw_head(turn: Turn) -> list[Fragment]:
    """How the turn fares: what changes until it is over."""
    summaries = turn.calls.filter(kind=ModelCall.Kind.SUMMARY).count()
    return [
        draw_fragment("turn/outcome", turn=turn),
        draw_fragment("turn/pager", around=_load_neighbours(turn)),
        draw_fragment("turn/figures", turn=turn, summaries=summaries),
        draw_fragment("turn/error", turn=turn, fixes=_find_current_fixes(turn)),
    ]


def _find_current_fixes(turn: Turn) -> tuple[Fix, ...]:
    mysis = turn.mysis
    # An error that the Mysis suffers from no more is mended already.
    if not turn.error or turn.error != mysis.last_error:
        return ()
    return find_fixes(mysis, load_provider_ids())


def _load_neighbours(turn: Turn) -> tuple[Turn | None, Turn | None]:
    before, after = turn.number - 1, turn.number + 1
    rows = Turn.objects.filter(mysis=turn.mysis, number__in=(before, after))
    found = {row.number: row for row in rows}
    return found.get(before), found.get(after)


class TurnPage:
    """A turn that goes on: outcome, figures, calls, and its messages as they come."""

    def __init__(
        self, turn: Turn, after: int | None, pending: Iterable[int] = ()
    ) -> None:
        self.turn_id = turn.pk
        self.mysis_id = turn.mysis_id
        self.over = False
        # What the viewer has of the calls. Those that came to an end are not read again:
        # only from the first on that may still change, or come.
        self.listed: set[str] = set()
        self.next = 0
        self.looked = 0.0
        self.rest = SELDOM
        self.sent = SentVersions()
        self.talk = ConversationFeed(turn.mysis, after, pending, turn.pk)

    def draw_all(self, version: int) -> list[SafeString]:
        return self._draw(whole=True)

    def draw_changes(self, dirty: Dirty) -> list[SafeString]:
        own = self.mysis_id in dirty.myses
        idle = self.over and not dirty.everything
        if idle or not (own or dirty.everything or self._due(dirty)):
            return []
        self.rest = SOON if own else SELDOM
        return self._draw(whole=False)

    def _due(self, dirty: Dirty) -> bool:
        # Without anything at all it is the beat of the socket itself.
        return not dirty or time.monotonic() - self.looked >= self.rest

    def _draw(self, *, whole: bool) -> list[SafeString]:
        self.looked = time.monotonic()
        turn = find_turn(self.turn_id)
        if turn is None:
            self.over = True
            return self.sent.draw_news(
                [Fragment("turn-error", draw_template("turn/gone"))]
            )
        # After its last line: what it wrote is read after its outcome was.
        self.over = turn.outcome is not None
        calls = self._list(turn) if whole else self._grown(turn)
        return [*self.sent.draw_news(draw_head(turn)), *calls, *self.talk.draw_news()]

    def _list(self, turn: Turn) -> list[SafeString]:
        page = load_call_page(turn)
        parts = draw_calls(turn, page.made)
        self.listed = set()
        self._note(page.made, parts)
        return self.sent.draw_news([draw_call_list(turn, page, parts)])

    def _grown(self, turn: Turn) -> list[SafeString]:
        if not self.listed:
            return self._list(turn)
        rows = ModelCall.objects.filter(turn=turn, pk__gte=self.next)
        found = _make_items(turn, rows.order_by("pk"))
        parts = draw_calls(turn, found)
        fresh = [part for part in parts if part.id not in self.listed]
        swaps = self.sent.draw_news(part for part in parts if part.id in self.listed)
        self._note(found, fresh)
        if fresh:
            new = draw_items(fresh)
            swaps.append(fragments.append_items("turn-calls", "beforeend", new))
        return swaps

    def _note(self, made: Sequence[CallItem], fresh: Sequence[Fragment]) -> None:
        """Keep that the viewer has calls that were read from ``next`` on."""
        self.sent.note(fresh)
        self.listed |= {part.id for part in fresh}
        if made:
            after = made[-1].call.pk + 1
            self.next = next((one.call.pk for one in made if one.open), after)
