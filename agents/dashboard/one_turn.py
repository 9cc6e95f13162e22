"""One turn as its page shows it, and as it goes on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from agents.models import ModelCall, Mysis, Turn
from memory.models import SentContext

from . import charts, fragments, lines
from .addresses import page_key
from .dirty import Dirty
from .fragments import Fragment, draw
from .sending import Sent
from .talk import Of, Talk

LINES = 200


@dataclass(frozen=True, slots=True)
class Made:
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
        """Whether it was made for a summary."""
        return self.call.kind == ModelCall.Kind.SUMMARY

    @property
    def id(self) -> str:
        """Of its element."""
        return f"{'summary' if self.summary else 'call'}-{self.call.number}"


def find(turn_id: int) -> Turn | None:
    """A turn with its Mysis."""
    rows = Turn.objects.select_related("mysis", "mysis__account")
    return rows.filter(pk=min(turn_id, 2**63 - 1)).first()


def calls_of(turn: Turn) -> list[Made]:
    """The calls of a turn in their order, without their payloads."""
    rows = SentContext.objects.filter(call__turn=turn).defer("ledger", "view", "facts")
    sent = {row.call_id: row for row in rows}
    found = ModelCall.objects.filter(turn=turn).order_by("pk")
    return [_made(turn, call, sent.get(call.pk)) for call in found]


def _made(turn: Turn, call: ModelCall, sent: SentContext | None) -> Made:
    ended = bool(call.finish_reason or call.error or call.latency_ms)
    gauge = charts.gauge(sent.stats) if sent else None
    return Made(call, sent, gauge, ended, open=not ended and turn.outcome is None)


def call_parts(turn: Turn, made: Iterable[Made]) -> list[Fragment]:
    """Each call as the inside of an item."""
    return [
        Fragment(one.id, draw("turn_call", item=one, turn=turn), "call-row")
        for one in made
    ]


def call_list(parts: Sequence[Fragment]) -> Fragment:
    """All calls, for a start."""
    return Fragment("turn-calls", items(parts) or draw("turn_no_call"))


def items(parts: Iterable[Fragment]) -> SafeString:
    """Calls as items of their list."""
    return format_html_join(
        "", '<li class="{}" {}>{}</li>', ((p.css, p.at, p.html) for p in parts)
    )


def head(turn: Turn, made: Sequence[Made]) -> list[Fragment]:
    """How the turn fares: what changes until it is over."""
    summaries = sum(one.summary for one in made)
    return [
        Fragment("turn-outcome", draw("turn_outcome", turn=turn)),
        Fragment(
            "turn-pager", draw("turn_pager", around=(_at(turn, -1), _at(turn, 1)))
        ),
        Fragment("turn-figures", draw("turn_figures", turn=turn, summaries=summaries)),
        Fragment("turn-error", draw("turn_error", turn=turn)),
    ]


def _at(turn: Turn, step: int) -> Turn | None:
    return Turn.objects.filter(mysis=turn.mysis, number=turn.number + step).first()


def newest_lines(turn: Turn, limit: int = LINES) -> list[lines.Line]:
    """The newest messages of a turn, oldest first."""
    mysis = turn.mysis
    return lines.newest(mysis.pk, mysis.name, limit, turn_id=turn.pk)


class TurnPage:
    """A turn that goes on: outcome, figures, calls, and its messages as they come."""

    def __init__(
        self, turn: Turn, after: int | None, pending: Iterable[int] = ()
    ) -> None:
        mysis: Mysis = turn.mysis
        self.turn_id = turn.pk
        self.mysis_id = mysis.pk
        self.over = False
        self.listed: set[str] = set()
        self.sent = Sent()
        of = Of(mysis.pk, mysis.name, page_key(mysis), turn.pk)
        self.talk = Talk(of, after, pending)

    def snapshot(self, version: int) -> list[SafeString]:
        """All of it, and the messages since the viewer's newest."""
        return self._told(whole=True)

    def changes(self, dirty: Dirty) -> list[SafeString]:
        """What differs. A call is opened without an event: every beat looks for one."""
        idle = self.over and not dirty.everything
        return [] if idle else self._told(whole=False)

    def _told(self, *, whole: bool) -> list[SafeString]:
        turn = find(self.turn_id)
        if turn is None:
            self.over = True
            gone = Fragment("turn-error", draw("turn_gone"))
            return self.sent.news([gone])
        # After its last line: what it wrote is read after its outcome was.
        self.over = turn.outcome is not None
        made = calls_of(turn)
        parts = call_parts(turn, made)
        calls = self._list(parts) if whole else self._grown(parts)
        return [*self.sent.news(head(turn, made)), *calls, *self.talk.news()]

    def _list(self, parts: Sequence[Fragment]) -> list[SafeString]:
        self.listed = {part.id for part in parts}
        self.sent.note(parts)
        return self.sent.news([call_list(parts)])

    def _grown(self, parts: Sequence[Fragment]) -> list[SafeString]:
        fresh = [part for part in parts if part.id not in self.listed]
        if fresh and not self.listed:
            return self._list(parts)
        known = [part for part in parts if part.id in self.listed]
        swaps = self.sent.news(known)
        if fresh:
            self.listed |= {part.id for part in fresh}
            self.sent.note(fresh)
            swaps.append(fragments.appended("turn-calls", "beforeend", items(fresh)))
        return swaps
