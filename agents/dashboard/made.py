"""The model calls of a turn, as its page lists them: there may be a thousand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from agents.models import ModelCall, Turn
from memory.models import SentContext

from . import charts
from .fragments import Fragment, draw

# Calls that are listed at once; the rest is a click away.
LISTED = 50
DRAWN = 512


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


@dataclass(frozen=True, slots=True)
class Page:
    """Calls in their order; ``older`` says whether there are some before them."""

    made: Sequence[Made]
    older: bool = False


def page_of(turn: Turn, before: int | None = None) -> Page:
    """The newest calls of a turn, or the newest of those before one."""
    rows = ModelCall.objects.filter(turn=turn).order_by("-pk")
    if before is not None:
        rows = rows.filter(pk__lt=before)
    found = list(rows[: LISTED + 1])
    return Page(_all(turn, found[LISTED - 1 :: -1]), older=len(found) > LISTED)


def calls_from(turn: Turn, first: int) -> list[Made]:
    """The calls of a turn from one on."""
    rows = ModelCall.objects.filter(turn=turn, pk__gte=first)
    return _all(turn, rows.order_by("pk"))


def _all(turn: Turn, calls: Iterable[ModelCall]) -> list[Made]:
    """Calls with what is kept of their contexts, without the payloads."""
    found = list(calls)
    rows = SentContext.objects.filter(call__in=found).defer("ledger", "view", "facts")
    sent = {row.call_id: row for row in rows}
    return [_made(turn, call, sent.get(call.pk)) for call in found]


def _made(turn: Turn, call: ModelCall, sent: SentContext | None) -> Made:
    ended = bool(call.finish_reason or call.error or call.latency_ms)
    gauge = charts.gauge(sent.stats) if sent else None
    return Made(call, sent, gauge, ended, open=not ended and turn.outcome is None)


def parts_of(turn: Turn, made: Iterable[Made]) -> list[Fragment]:
    """Each call as the inside of an item."""
    return [Fragment(one.id, _part(turn, one), "call-row") for one in made]


@dataclass(frozen=True, slots=True)
class Asked:
    """An ended call; ``shown`` alone tells whether the same was drawn before."""

    shown: tuple[object, ...]
    turn: Turn = field(compare=False)
    made: Made = field(compare=False)


def _part(turn: Turn, made: Made) -> SafeString:
    if not made.ended:
        return draw("turn_call", item=made, turn=turn)
    call, sent = made.call, made.sent
    shown = (
        turn.pk, made.id, call.model, call.input_tokens, call.output_tokens,
        call.cached_tokens, call.latency_ms, call.cost, call.finish_reason, call.error,
        made.gauge, sent and sent.strategy,
    )  # fmt: skip
    return _drawn(Asked(shown, turn, made))


@lru_cache(maxsize=DRAWN)
def _drawn(asked: Asked) -> SafeString:
    return draw("turn_call", item=asked.made, turn=asked.turn)


def list_of(turn: Turn, page: Page, parts: Sequence[Fragment]) -> Fragment:
    """Calls of a page, with a way to those before them."""
    if not parts:
        return Fragment("turn-calls", draw("turn_no_call", turn=turn))
    first = page.made[0].call.pk if page.older else None
    return Fragment("turn-calls", draw("turn_calls", older=first, items=items(parts)))


def items(parts: Iterable[Fragment]) -> SafeString:
    """Calls as items of their list."""
    return format_html_join(
        "", '<li class="{}" {}>{}</li>', ((p.css, p.at, p.html) for p in parts)
    )


@dataclass(slots=True)
class Listed:
    """What a viewer has of the calls: those that came to an end are not read again.

    ``next`` is the first call that may still change, or come.
    """

    next: int = 0
    ids: set[str] = field(default_factory=set)

    def begin(self, made: Sequence[Made], parts: Iterable[Fragment]) -> None:
        """All of it anew."""
        self.next, self.ids = 0, set()
        self.add(made, parts)

    def add(self, made: Sequence[Made], parts: Iterable[Fragment]) -> None:
        """Calls that were read from ``next`` on."""
        self.ids |= {part.id for part in parts}
        still = next((one.call.pk for one in made if one.open), None)
        if still is not None:
            self.next = still
        elif made:
            self.next = made[-1].call.pk + 1
