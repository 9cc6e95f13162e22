"""The live pages of one viewer each: all that is live at first, then what changed.

Synchronous, for a worker thread; one object per viewer. It remembers the version of
every fragment that the viewer has, so that only what differs is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from django.utils import timezone
from django.utils.safestring import SafeString

from agents.dashboard import conversation, feed, fleet, health, map, system_status
from agents.dashboard import mysis as dashboard_mysis
from agents.dashboard.conversation import Line
from agents.dashboard.live import events_page, fragments
from agents.dashboard.live.changes import Dirty
from agents.dashboard.live.fragments import Fragment, Sent, draw
from agents.dashboard.map import Chart
from agents.dashboard.shared_results import bucket, shared
from agents.models import Mysis

# Lines since the viewer's newest above which the conversation is drawn anew.
LOG_GAP = 200
PENDING = 50
PARTS = ("troubles", "work", "fleet", "budgets", "models", "failures")


@dataclass(frozen=True, slots=True)
class ConversationKey:
    """Whose conversation: of a Mysis, or of one of its turns alone."""

    mysis_id: int
    name: str
    key: str
    turn_id: int | None = None


class ConversationFeed:
    """The lines that a viewer has.

    ``after`` is the newest of them, ``pending`` are lines whose answer it still waits
    for; ``after`` None leaves the conversation alone.
    """

    def __init__(
        self, of: ConversationKey, after: int | None, pending: Iterable[int] = ()
    ) -> None:
        self.of = of
        self.after = after
        self.open: dict[int, tuple[object, ...]] = dict.fromkeys(
            list(pending)[:PENDING], ()
        )

    def news(self) -> list[SafeString]:
        """Answers that have come, and the lines since the newest."""
        if self.after is None:
            return []
        of = self.of
        fresh = conversation.after(
            of.mysis_id, of.name, self.after, LOG_GAP + 1, turn_id=of.turn_id
        )
        if len(fresh) > LOG_GAP:
            newest = conversation.newest(of.mysis_id, of.name, turn_id=of.turn_id)
            self._note(newest)
            # What is older in the log belongs to other turns.
            log = fragments.log(newest, of.key, whole=of.turn_id is not None)
            return [fragments.swapped(log)]
        known = self._answered() if self.open else []
        self._note(fresh)
        if not fresh:
            return known
        added = fragments.log_lines(fresh, of.key)
        return [*known, fragments.appended("log", "beforeend", added)]

    def _answered(self) -> list[SafeString]:
        """Lines that were waiting and have their answer now."""
        of = self.of
        found = conversation.chosen(of.mysis_id, of.name, list(self.open))
        changed = [line for line in found if self.open.get(line.id) != line.version]
        self._note(changed)
        if not changed:
            return []
        return [fragments.log_lines(changed, of.key, swap=True)]

    def _note(self, seen: Sequence[Line]) -> None:
        for line in seen:
            self.after = max(self.after or 0, line.id)
            if line.waits:
                self.open[line.id] = line.version
            else:
                self.open.pop(line.id, None)
        while len(self.open) > PENDING:
            self.open.pop(next(iter(self.open)))


class LivePage(Protocol):
    """One viewer's page."""

    def snapshot(self, version: int) -> list[SafeString]:
        """Everything that is live on the page, read now.

        ``version`` is the id of the newest event that the viewer's stream
        has left behind.
        """

    def changes(self, dirty: Dirty) -> list[SafeString]:
        """What differs from what the viewer has."""


class TimedPage:
    """A live page that changes as time goes on, whatever happens."""

    def __init__(self, parts: Callable[[datetime], Iterable[Fragment]]) -> None:
        self.parts = parts
        self.sent = Sent()

    def snapshot(self, version: int) -> list[SafeString]:
        return self.sent.news(self.parts(timezone.now()))

    def changes(self, dirty: Dirty) -> list[SafeString]:
        return self.snapshot(0)


def drawn(rows: fleet.Rows) -> Fragment:
    """The list of rows; its version stands for what a page with it shows."""
    fragment = fragments.fleet_rows(rows)
    shared.get(("drawn", fragment.version), lambda: rows)
    return fragment


class FleetPage:
    """The fleet, as one viewer filters and sorts it.

    ``rows`` and ``told`` are versions of the list and of the feed that the viewer
    shows, from the page that was loaded a moment ago: neither comes twice.
    """

    def __init__(self, view: fleet.View, rows: str = "", told: str = "") -> None:
        self.view = view
        self.has = rows, told
        self.ids: list[int] = []
        self.matching: frozenset[int] = frozenset()
        self.sent = Sent()
        self.newest = self.wide = 0

    def snapshot(self, version: int) -> list[SafeString]:
        """Head, all rows, the feed; of the last two what the viewer has not got."""
        now = timezone.now()
        self.newest = self.wide = version
        rows = fleet.rows_of(self.view, now)
        head = self.sent.news(
            [*fragments.fleet_head(health.read_health(now)), *events_page.of_groups()]
        )
        shown, told = self.has
        newest = fragments.newest_feed()
        feed = [] if newest.version == told else [fragments.swapped(newest)]
        return [*self._since(shared.known(("drawn", shown)), rows), *head, *feed]

    def _since(self, shown: fleet.Rows | None, rows: fleet.Rows) -> list[SafeString]:
        if shown is None or not shown.lists_as(rows):
            return self._list(rows)
        self.ids = [row.id for row in rows.shown]
        self.matching = rows.matching
        for row in shown.shown:
            self.sent.note(fragments.cells(row))
        return self.sent.news(
            cell for row in rows.shown for cell in fragments.cells(row)
        )

    def changes(self, dirty: Dirty) -> list[SafeString]:
        """Rows whose Mysis did something, the head, new feed lines."""
        now = timezone.now()
        self.newest = dirty.newest or self.newest
        self.wide = dirty.wide or self.wide
        if dirty.everything:
            return [*self._recheck(now), *_fed(dirty)]
        swaps: list[SafeString] = []
        if dirty.wide and self._matching() != self.matching:
            swaps += self._list(self._all_rows(now))
        mine = {n: v for n, v in dirty.myses.items() if n in self.ids}
        for found in _cells(mine).values():
            swaps += self.sent.news(found)
        return [*swaps, *self._head(now), *_fed(dirty)]

    def _recheck(self, now: datetime) -> list[SafeString]:
        rows = self._all_rows(now)
        # An order by what changes is kept up to date, but only with these rechecks:
        # rows that move at every word could not be read.
        moved = [row.id for row in rows.shown] != self.ids
        if rows.matching != self.matching or moved:
            return [*self._list(rows), *self._head(now)]
        mine = [row for row in rows.shown if row.id in self.ids]
        found = [cell for row in mine for cell in fragments.cells(row)]
        return [*self.sent.news(found), *self._head(now)]

    def _list(self, rows: fleet.Rows) -> list[SafeString]:
        self.ids = [row.id for row in rows.shown]
        self.matching = rows.matching
        for row in rows.shown:
            self.sent.note(fragments.cells(row))
        return [fragments.swapped(drawn(rows))]

    def _all_rows(self, now: datetime) -> fleet.Rows:
        key = ("rows", self.view, self.newest, bucket(now))
        return shared.get(key, lambda: fleet.rows_of(self.view, now))

    def _matching(self) -> frozenset[int]:
        key = ("matching", self.view, self.wide)
        return shared.get(key, lambda: frozenset(fleet.matching(self.view)))

    def _head(self, now: datetime) -> list[SafeString]:
        # Sums of the whole fleet change with every turn: they are a little old here, so
        # that the rows of those who did something need not wait for them.
        known = shared.get(("sums", bucket(now)), lambda: health.sums(now))
        key = ("health", self.wide, bucket(now))
        head = shared.get(
            key, lambda: fragments.fleet_head(health.read_health(now, known=known))
        )
        return self.sent.news([*head, *events_page.of_groups()])


Cells = Mapping[tuple[str, int, int], Sequence[Fragment]]


def _cells(versions: Mapping[int, int]) -> Cells:
    """The cells of Myses by number and newest event, loaded together."""

    def make(keys: Sequence[tuple[str, int, int]]) -> Cells:
        rows = fleet.load([number for _, number, _ in keys], timezone.now())
        drawn = {row.id: fragments.cells(row) for row in rows}
        return {key: drawn.get(key[1], ()) for key in keys}

    keys = [("cells", number, version) for number, version in versions.items()]
    return shared.get_many(keys, make)


def _fed(dirty: Dirty) -> list[SafeString]:
    told = feed.of_items(dirty.feed)
    if not told:
        return []
    return [fragments.appended("feed", "afterbegin", fragments.feed_lines(told))]


class MysisPage:
    """One Mysis: head, state, turns, and the conversation as it grows.

    ``after`` is the newest line that the viewer has, ``pending`` are lines whose
    answer it still waits for; ``after`` None leaves the conversation alone.
    """

    def __init__(
        self, mysis: Mysis, after: int | None, pending: Iterable[int] = ()
    ) -> None:
        self.mysis_id = mysis.pk
        self.version = 0
        self.sent = Sent()
        self.talk = ConversationFeed(
            ConversationKey(mysis.pk, mysis.name, mysis.page_key), after, pending
        )

    def snapshot(self, version: int) -> list[SafeString]:
        self.version = version
        parts = self._draw(timezone.now())
        return [*self.sent.news(parts), *self.talk.news()]

    def changes(self, dirty: Dirty) -> list[SafeString]:
        version = dirty.myses.get(self.mysis_id)
        if version is None and not dirty.everything:
            return []
        self.version = version or self.version
        now = timezone.now()
        key = ("mysis", self.mysis_id, self.version, bucket(now))
        parts = shared.get(key, lambda: self._draw(now))
        return [*self.sent.news(parts), *self.talk.news()]

    def _draw(self, now: datetime) -> list[Fragment]:
        rows = Mysis.objects.select_related("account", "policy", "prompt")
        mysis = rows.filter(pk=self.mysis_id).first()
        if mysis is None:
            return [Fragment("mysis-error", fragments.draw("mysis/gone"))]
        return fragments.mysis(
            dashboard_mysis.head(mysis, now), dashboard_mysis.panel(mysis, now)
        )


# The pages that change with time are drawn at most once in ten seconds for all viewers.


def on_map(chart: Chart) -> Fragment:
    """The ships over the drawing, and the list of where they are."""
    return Fragment("map-ships", draw("map/ships", chart=chart, fleet=map.fleet(chart)))


def map_page() -> TimedPage:
    """The galaxy as the ships move; nothing while there is no map."""

    def make() -> list[Fragment]:
        chart = map.chart()
        return [on_map(chart)] if chart else []

    return TimedPage(lambda now: shared.get(("ships", bucket(now)), make))


def health_parts(now: datetime) -> list[Fragment]:
    """Everything on the health page that changes by itself."""
    context = {
        "health": health.read_health(now, most=health.ALL_TROUBLES),
        "machine": system_status.look(now),
    }
    return [
        Fragment(f"health-{name}", draw(f"health/{name}", **context)) for name in PARTS
    ]


def health_page() -> TimedPage:
    """The state of the machine as time goes on."""
    return TimedPage(
        lambda now: shared.get(("health page", bucket(now)), lambda: health_parts(now))
    )
