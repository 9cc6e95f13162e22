"""The live page of a Mysis: its head and state, and its conversation as it grows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone
from django.utils.safestring import SafeString

from agents.dashboard import conversation
from agents.dashboard import mysis as dashboard_mysis
from agents.dashboard.conversation import Line
from agents.dashboard.live import fragments
from agents.dashboard.live.changes import Dirty
from agents.dashboard.live.fragments import Fragment, SentVersions
from agents.dashboard.shared_results import shared, time_bucket
from agents.events import Position
from agents.models import Mysis

# Lines since the viewer's newest above which the conversation is drawn anew.
LOG_GAP = 200
PENDING = 50


@dataclass(frozen=True, slots=True)
class LogNews:
    """Swaps of the lines that changed, and the lines that the viewer has not.

    ``gap``: too many came, the list is to be drawn anew from its end.
    """

    changed: Sequence[SafeString]
    fresh: Sequence[Line]
    gap: bool = False


class ConversationFeed:
    """The lines that a viewer has of a Mysis, or of one of its turns alone.

    ``after`` is the newest of them, ``pending`` are lines whose answer it still waits
    for; ``after`` None leaves the conversation alone.
    """

    def __init__(
        self,
        mysis: Mysis,
        after: int | None,
        pending: Iterable[int] = (),
        turn_id: int | None = None,
    ) -> None:
        self.mysis = mysis
        self.turn_id = turn_id
        self.after = after
        self.open: dict[int, tuple[object, ...]] = dict.fromkeys(
            list(pending)[:PENDING], ()
        )

    def draw_news(self) -> list[SafeString]:
        """Answers that have come, and the lines since the newest."""
        news = self.read_news()
        if news.gap:
            return self.draw_anew()
        if not news.fresh:
            return [*news.changed]
        added = fragments.draw_log_lines(news.fresh, self.mysis)
        return [*news.changed, fragments.append_items("log", "beforeend", added)]

    def draw_anew(self) -> list[SafeString]:
        """The conversation from its end, in the place of what the viewer has."""
        if self.after is None:
            return []
        newest = conversation.load_newest_lines(self.mysis)
        self.note(newest)
        return [fragments.swap_fragment(fragments.draw_log(newest, self.mysis))]

    def read_news(self, upto: int | None = None) -> LogNews:
        """What the viewer has not, up to a memory; it is taken to have it from now on."""
        if self.after is None:
            return LogNews((), ())
        fresh = conversation.load_lines_after(
            self.mysis, self.after, LOG_GAP + 1, turn_id=self.turn_id, upto=upto
        )
        if len(fresh) > LOG_GAP:
            return LogNews((), (), gap=True)
        changed = self._draw_answered() if self.open else []
        self.note(fresh)
        return LogNews(changed, fresh)

    def _draw_answered(self) -> list[SafeString]:
        found = conversation.load_lines(self.mysis, list(self.open))
        changed = [line for line in found if self.open.get(line.id) != line.version]
        self.note(changed)
        if not changed:
            return []
        return [fragments.draw_log_lines(changed, self.mysis, swap=True)]

    def note(self, seen: Sequence[Line]) -> None:
        """The viewer has these lines."""
        for line in seen:
            self.after = max(self.after or 0, line.id)
            if line.waits:
                self.open[line.id] = line.version
            else:
                self.open.pop(line.id, None)
        while len(self.open) > PENDING:
            self.open.pop(next(iter(self.open)))


class MysisPage:
    """One Mysis: head, state, turns, and its `ConversationFeed` as it grows."""

    def __init__(
        self, mysis: Mysis, after: int | None, pending: Iterable[int] = ()
    ) -> None:
        self.mysis_id = mysis.pk
        self.version = 0
        self.sent = SentVersions()
        self.talk = ConversationFeed(mysis, after, pending)

    def draw_all(self, through: Position) -> list[SafeString]:
        self.version = through.id
        parts = self._draw(timezone.now())
        return [*self.sent.draw_news(parts), *self.talk.draw_news()]

    def draw_changes(self, dirty: Dirty) -> list[SafeString]:
        version = dirty.myses.get(self.mysis_id)
        if version is None and not dirty.everything:
            return []
        self.version = version or self.version
        now = timezone.now()
        key = ("mysis", self.mysis_id, self.version, time_bucket(now))
        parts = shared.get(key, lambda: self._draw(now))
        branched = self.mysis_id in dirty.branched
        lines = self.talk.draw_anew() if branched else self.talk.draw_news()
        return [*self.sent.draw_news(parts), *lines]

    def _draw(self, now: datetime) -> list[Fragment]:
        rows = Mysis.objects.select_related("account", "policy", "prompt")
        mysis = rows.filter(pk=self.mysis_id).first()
        if mysis is None:
            return [Fragment("mysis-error", fragments.draw_template("mysis/gone"))]
        return fragments.draw_mysis(dashboard_mysis.load_head(mysis, now), now)
