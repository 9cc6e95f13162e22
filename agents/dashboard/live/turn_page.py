"""One turn as its page shows it and as it goes on.

Its calls stand between its messages and results, in the order of time.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import accumulate, groupby
from operator import itemgetter

from django.db.models import OuterRef, Subquery
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from agents.dashboard import charts, conversation
from agents.dashboard.conversation import Line
from agents.dashboard.live import fragments
from agents.dashboard.live.changes import Dirty
from agents.dashboard.live.fragments import (
    Fragment,
    SentVersions,
    draw_fragment,
    draw_log_lines,
    draw_template,
)
from agents.dashboard.live.mysis_page import ConversationFeed
from agents.dashboard.shared_results import Keyed
from agents.dashboard.troubles import Fix, find_fixes, load_provider_ids
from agents.events import Position
from agents.models import ModelCall, Turn
from memory.models import Memory, SentContext

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
class Timeline:
    """Calls and lines of a turn, oldest first; ``older`` says whether there are more
    calls before them."""

    calls: Sequence[CallItem]
    lines: Sequence[Line]
    older: bool = False


def load_timeline(
    turn: Turn, before: int | None = None, limit: int = LINES
) -> Timeline:
    """The newest calls of a turn, or the newest before one, with what was written then.

    With at most ``limit`` lines: calls that wrote nothing of these are left out too.
    """
    rows = ModelCall.objects.filter(turn=turn).order_by("-pk")
    if before is not None:
        rows = rows.filter(pk__lt=before)
    found = list(rows[: LISTED + 1])
    calls, older = found[LISTED - 1 :: -1], len(found) > LISTED
    lines = conversation.load_turn_lines(
        turn,
        limit,
        since=calls[0].created_at if older else None,
        until=_find_opening(turn, before),
    )
    if len(lines) == limit:
        first = max(0, _count_opened(calls, lines[0].at) - 1)
        calls, older = calls[first:], older or first > 0
    return Timeline(_make_items(turn, calls), lines, older)


def _find_opening(turn: Turn, before: int | None) -> datetime | None:
    """When the first call from ``before`` on was opened."""
    if before is None:
        return None
    rows = ModelCall.objects.filter(turn=turn, pk__gte=before).order_by("pk")
    return rows.values_list("created_at", flat=True).first()


def _count_opened(calls: Sequence[ModelCall], at: datetime) -> int:
    """How many of these calls were opened by then."""
    return bisect_right(calls, at, key=lambda call: call.created_at)


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


def draw_call(turn: Turn, made: CallItem) -> Fragment:
    """A call as the inside of an item."""
    return Fragment(made.id, _draw_call(turn, made), "call-row")


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


def draw_timeline(turn: Turn, shown: Timeline) -> SafeString:
    """Calls and lines as items of one list, with a way to the calls before them.

    A call stands before what was written after it was opened.
    """
    calls = [item.call for item in shown.calls]
    # Lines stand in the order of the log, whatever the clocks say.
    places = accumulate((_count_opened(calls, line.at) for line in shown.lines), max)
    runs = {
        place: draw_log_lines([line for _, line in run], turn.mysis)
        for place, run in groupby(zip(places, shown.lines, strict=True), itemgetter(0))
    }
    older = calls[0].pk if shown.older else None
    pieces = [draw_template("turn/older", older=older), runs.get(0, "")]
    for count, item in enumerate(shown.calls, 1):
        pieces += [_draw_item(turn, item), runs.get(count, "")]
    return format_html_join("", "{}", ((piece,) for piece in pieces))


def _draw_item(turn: Turn, made: CallItem) -> SafeString:
    part = draw_call(turn, made)
    inside = '<li class="{}" data-call="{}" {}>{}</li>'
    return format_html(inside, part.css, made.call.pk, part.at, part.html)


def find_turn(turn_id: int) -> Turn | None:
    rows = Turn.objects.select_related("mysis", "mysis__account")
    return rows.filter(pk=turn_id).first()


def draw_head(turn: Turn, *, called: bool) -> list[Fragment]:
    """How the turn fares: what changes until it is over.

    ``called`` says whether it called a model yet.
    """
    summaries = turn.calls.filter(kind=ModelCall.Kind.SUMMARY).count()
    return [
        draw_fragment("turn/outcome", turn=turn),
        draw_fragment("turn/pager", around=_load_neighbours(turn)),
        draw_fragment("turn/figures", turn=turn, summaries=summaries),
        draw_fragment("turn/error", turn=turn, fixes=_find_current_fixes(turn)),
        draw_fragment("turn/uncalled", turn=turn, called=called),
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


def _find_with_ends(turn_id: int) -> tuple[Turn, int, int] | None:
    """The turn, the newest line of its Mysis and its newest call, all of one moment.

    What is read up to these misses nothing between them: no line of a call that is
    not read, and no call before a line that is not.
    """
    # By the index of its turn, where an order by number would walk all calls.
    calls = ModelCall.objects.filter(turn=OuterRef("pk")).order_by("-created_at", "-pk")
    lines = Memory.objects.filter(mysis=OuterRef("mysis")).order_by("-pk")
    rows = Turn.objects.select_related("mysis", "mysis__account").annotate(
        newest_call=Subquery(calls.values("pk")[:1]),
        newest_line=Subquery(lines.values("pk")[:1]),
    )
    turn = rows.filter(pk=turn_id).first()
    if turn is None:
        return None
    return turn, turn.newest_line or 0, turn.newest_call or 0


class TurnPage:
    """A turn that goes on: outcome, figures, and its calls and messages as they come.

    ``after`` and ``call`` are the newest line and the newest call that the viewer has.
    """

    def __init__(
        self,
        turn: Turn,
        after: int | None,
        pending: Iterable[int] = (),
        call: int | None = None,
    ) -> None:
        self.turn_id = turn.pk
        self.mysis_id = turn.mysis_id
        self.over = False
        # Calls that came to an end are not read again: only from the first on that may
        # still change, or come.
        self.newest = self.next = call or 0
        self.looked = 0.0
        self.rest = SELDOM
        self.sent = SentVersions()
        self.talk = ConversationFeed(turn.mysis, after, pending, turn.pk)

    def draw_all(self, through: Position) -> list[SafeString]:
        return self._draw()

    def draw_changes(self, dirty: Dirty) -> list[SafeString]:
        own = self.mysis_id in dirty.myses
        idle = self.over and not dirty.everything
        if idle or not (own or dirty.everything or self._due(dirty)):
            return []
        self.rest = SOON if own else SELDOM
        return self._draw()

    def _due(self, dirty: Dirty) -> bool:
        # Without anything at all it is the beat of the socket itself.
        return not dirty or time.monotonic() - self.looked >= self.rest

    def _draw(self) -> list[SafeString]:
        self.looked = time.monotonic()
        found = _find_with_ends(self.turn_id)
        if found is None:
            self.over = True
            return self.sent.draw_news(
                [Fragment("turn-error", draw_template("turn/gone"))]
            )
        turn, line, call = found
        # The last line and the last call were there when its outcome was read.
        self.over = turn.outcome is not None
        head = draw_head(turn, called=call > 0)
        log = self._draw_log(turn, line, call)
        return [*self.sent.draw_news(head), *log]

    def _draw_log(self, turn: Turn, line: int, call: int) -> list[SafeString]:
        """What the viewer has not, up to a line and a call of one moment."""
        rows = ModelCall.objects.filter(turn=turn, pk__gte=self.next, pk__lte=call)
        found = _make_items(turn, rows.order_by("pk")[: LISTED + 1])
        news = self.talk.read_news(line)
        if news.gap or len(found) > LISTED:
            return [self._draw_anew(turn)]
        had = [item for item in found if item.call.pk <= self.newest]
        fresh = found[len(had) :]
        swaps = self.sent.draw_news(draw_call(turn, item) for item in had)
        self._note(turn, found)
        if fresh or news.fresh:
            added = draw_timeline(turn, Timeline(fresh, news.fresh))
            swaps.append(fragments.append_items("log", "beforeend", added))
        return [*news.changed, *swaps]

    def _draw_anew(self, turn: Turn) -> SafeString:
        shown = load_timeline(turn)
        self._note(turn, shown.calls)
        self.talk.note(shown.lines)
        return fragments.swap_fragment(Fragment("log", draw_timeline(turn, shown)))

    def _note(self, turn: Turn, had: Sequence[CallItem]) -> None:
        """The viewer has these calls."""
        self.sent.note(draw_call(turn, item) for item in had)
        if had:
            self.newest = had[-1].call.pk
            self.next = next(
                (item.call.pk for item in had if item.open), self.newest + 1
            )
