"""One turn as its page shows it, and as it goes on."""

from __future__ import annotations

import time
from collections.abc import Iterable

from django.utils.safestring import SafeString

from agents.models import ModelCall, Mysis, Turn

from . import fragments, lines, made
from .addresses import page_key
from .dirty import Dirty
from .fixes import Fix, fix_of, providers
from .fragments import Fragment, draw
from .sending import Sent
from .talk import Of, Talk

LINES = 200
# A call is opened without an event: seconds after which one is looked for, soon after
# an event of this Mysis and seldom otherwise.
SOON, SELDOM = 1.0, 10.0


def find(turn_id: int) -> Turn | None:
    """A turn with its Mysis."""
    rows = Turn.objects.select_related("mysis", "mysis__account")
    return rows.filter(pk=min(turn_id, 2**63 - 1)).first()


def head(turn: Turn) -> list[Fragment]:
    """How the turn fares: what changes until it is over."""
    summaries = turn.calls.filter(kind=ModelCall.Kind.SUMMARY).count()
    return [
        Fragment("turn-outcome", draw("turn_outcome", turn=turn)),
        Fragment("turn-pager", draw("turn_pager", around=_around(turn))),
        Fragment("turn-figures", draw("turn_figures", turn=turn, summaries=summaries)),
        Fragment("turn-error", draw("turn_error", turn=turn, fix=_fix(turn))),
    ]


def _fix(turn: Turn) -> Fix | None:
    """Where its error is mended, if the Mysis still suffers from it."""
    mysis = turn.mysis
    if not turn.error or turn.error != mysis.last_error:
        return None
    return fix_of(mysis, providers())


def _around(turn: Turn) -> tuple[Turn | None, Turn | None]:
    """The turns before and after."""
    rows = Turn.objects.filter(
        mysis=turn.mysis, number__in=(turn.number - 1, turn.number + 1)
    )
    found = {row.number: row for row in rows}
    return found.get(turn.number - 1), found.get(turn.number + 1)


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
        self.listed = made.Listed()
        self.looked = 0.0
        self.rest = SELDOM
        self.sent = Sent()
        of = Of(mysis.pk, mysis.name, page_key(mysis), turn.pk)
        self.talk = Talk(of, after, pending)

    def snapshot(self, version: int) -> list[SafeString]:
        """All of it, and the messages since the viewer's newest."""
        return self._told(whole=True)

    def changes(self, dirty: Dirty) -> list[SafeString]:
        """What differs, if this Mysis did anything or it is time to look again."""
        own = self.mysis_id in dirty.myses
        idle = self.over and not dirty.everything
        if idle or not (own or dirty.everything or self._due(dirty)):
            return []
        self.rest = SOON if own else SELDOM
        return self._told(whole=False)

    def _due(self, dirty: Dirty) -> bool:
        # Without anything at all it is the beat of the socket itself.
        return not dirty or time.monotonic() - self.looked >= self.rest

    def _told(self, *, whole: bool) -> list[SafeString]:
        self.looked = time.monotonic()
        turn = find(self.turn_id)
        if turn is None:
            self.over = True
            gone = Fragment("turn-error", draw("turn_gone"))
            return self.sent.news([gone])
        # After its last line: what it wrote is read after its outcome was.
        self.over = turn.outcome is not None
        calls = self._list(turn) if whole else self._grown(turn)
        return [*self.sent.news(head(turn)), *calls, *self.talk.news()]

    def _list(self, turn: Turn) -> list[SafeString]:
        page = made.page_of(turn)
        parts = made.parts_of(turn, page.made)
        self.listed.begin(page.made, parts)
        self.sent.note(parts)
        return self.sent.news([made.list_of(turn, page, parts)])

    def _grown(self, turn: Turn) -> list[SafeString]:
        if not self.listed.ids:
            return self._list(turn)
        found = made.calls_from(turn, self.listed.next)
        parts = made.parts_of(turn, found)
        fresh = [part for part in parts if part.id not in self.listed.ids]
        swaps = self.sent.news(part for part in parts if part.id in self.listed.ids)
        self.listed.add(found, fresh)
        if fresh:
            self.sent.note(fresh)
            new = made.items(fresh)
            swaps.append(fragments.appended("turn-calls", "beforeend", new))
        return swaps
