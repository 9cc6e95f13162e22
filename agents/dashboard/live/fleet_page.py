"""The live page of the fleet: its rows as a viewer chose them, head, orders, feed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from django.utils import timezone
from django.utils.safestring import SafeString

from agents import events
from agents.dashboard import feed, fleet, health
from agents.dashboard.event_kinds import NEWS
from agents.dashboard.feed import FeedLine
from agents.dashboard.fleet import FleetRow, FleetRows
from agents.dashboard.live import events_page, fragments
from agents.dashboard.live.changes import WIDE, Dirty
from agents.dashboard.live.fragments import Fragment, SentVersions
from agents.dashboard.shared_results import shared, time_bucket
from agents.events import Kind, Position

# Seconds.
TURNS_TOGETHER = 2


class FleetPage:
    """The fleet, as one viewer filters and sorts it.

    ``rows`` and ``told`` are versions of the list and of the feed that the viewer
    shows, from the page that was loaded a moment ago: neither comes twice.
    """

    def __init__(self, view: fleet.FleetView, rows: str = "", told: str = "") -> None:
        self.view = view
        self.has = rows, told
        self.ids: list[int] = []
        self.matching: frozenset[int] = frozenset()
        self.sent = SentVersions()
        self.newest = self.wide = self.turns = self.orders = 0

    def draw_all(self, through: Position) -> list[SafeString]:
        """Head, all rows, the feed; of the last two what the viewer has not got."""
        now = timezone.now()
        self.newest = through.id
        # Those that all others go by: what they draw is not drawn again for this one.
        self.wide, self.turns, self.orders, _ = find_newest_told(through)
        rows = fleet.load_view(self.view, now)
        shown, told = self.has
        swaps = self._since(shared.peek(("drawn", shown)), rows)
        feed_swaps = _draw_feed_since(shared.peek(("told", told)))
        return [*swaps, *self._head(now), *feed_swaps]

    def _since(self, shown: FleetRows | None, rows: FleetRows) -> list[SafeString]:
        if shown is None or not shown.lists_as(rows):
            return self._list(rows)
        self._note(rows, shown)
        return self.sent.draw_news(_draw_cells(rows.shown))

    def draw_changes(self, dirty: Dirty) -> list[SafeString]:
        """Rows whose Mysis did something, the head, new feed lines."""
        now = timezone.now()
        self.newest = dirty.newest or self.newest
        self.wide = dirty.wide or self.wide
        self.turns = dirty.turns or self.turns
        self.orders = dirty.orders or self.orders
        if dirty.everything:
            return [*self._recheck(now), *_draw_feed(dirty)]
        swaps: list[SafeString] = []
        if (dirty.wide or dirty.turns) and self._matching() != self.matching:
            swaps += self._list(self._all_rows(now))
        mine = [("cells", n, v) for n, v in dirty.myses.items() if n in self.ids]
        for found in shared.get_many(mine, _load_cells).values():
            swaps += self.sent.draw_news(found)
        return [*swaps, *self._head(now), *_draw_feed(dirty)]

    def _recheck(self, now: datetime) -> list[SafeString]:
        rows = self._all_rows(now)
        # An order by what changes is kept up to date, but only with these rechecks:
        # rows that move at every word could not be read.
        moved = [row.id for row in rows.shown] != self.ids
        if rows.matching != self.matching or moved:
            return [*self._list(rows), *self._head(now)]
        return [*self.sent.draw_news(_draw_cells(rows.shown)), *self._head(now)]

    def _list(self, rows: FleetRows) -> list[SafeString]:
        self._note(rows, rows)
        return [fragments.swap_fragment(draw_shared_rows(rows))]

    def _note(self, rows: FleetRows, drawn: FleetRows) -> None:
        """Keep what is listed now, and in which versions the viewer has its cells."""
        self.ids = [row.id for row in rows.shown]
        self.matching = rows.matching
        self.sent.note(_draw_cells(drawn.shown))

    def _all_rows(self, now: datetime) -> FleetRows:
        key = ("rows", self.view, self.newest, time_bucket(now))
        return shared.get(key, lambda: fleet.load_view(self.view, now))

    def _matching(self) -> frozenset[int]:
        key = ("matching", self.view, self.wide, self.turns)
        return shared.get(key, lambda: frozenset(fleet.find_matching_ids(self.view)))

    def _head(self, now: datetime) -> list[SafeString]:
        head = share_head(now, self.wide, self.turns, self.orders)
        return self.sent.draw_news([*head, *events_page.draw_group_counts()])


def _draw_cells(rows: Iterable[FleetRow]) -> Iterable[Fragment]:
    return (cell for row in rows for cell in fragments.draw_cells(row))


Cells = Mapping[tuple[str, int, int], Sequence[Fragment]]


def _load_cells(keys: Sequence[tuple[str, int, int]]) -> Cells:
    rows = fleet.load_rows([number for _, number, _ in keys], timezone.now())
    drawn = {row.id: fragments.draw_cells(row) for row in rows}
    return {key: drawn.get(key[1], ()) for key in keys}


def _draw_feed(dirty: Dirty) -> list[SafeString]:
    told = feed.make_news_lines(dirty.feed)
    return [fragments.prepend_feed_lines(told)] if told else []


def _draw_feed_since(shown: Sequence[FeedLine] | None) -> list[SafeString]:
    """The lines above those that a viewer shows; all where these are not the newest."""
    lines = feed.load_newest_feed()
    if lines == shown:
        return []
    known = {line.id for line in shown or ()}
    fresh = [line for line in lines if line.id not in known]
    kept = lines[len(fresh) :]
    if shown is None or not (fresh and kept) or kept != shown[: len(kept)]:
        return [fragments.swap_fragment(fragments.draw_feed(lines))]
    return [fragments.prepend_feed_lines(fresh)]


def draw_shared_feed() -> Fragment:
    """The feed; its version stands for the lines that a page with it shows."""
    lines = feed.load_newest_feed()
    fragment = fragments.draw_feed(lines)
    shared.get(("told", fragment.version), lambda: lines)
    return fragment


def draw_shared_rows(rows: FleetRows) -> Fragment:
    """The list of rows; its version stands for what a page with it shows."""
    fragment = fragments.draw_fleet_rows(rows)
    shared.get(("drawn", fragment.version), lambda: rows)
    return fragment


def share_head(now: datetime, wide: int, turns: int, orders: int) -> list[Fragment]:
    """The head and the last orders as of these events, drawn once for all who look.

    In a fleet some turn ends all the time: those of two seconds show together, with the
    first of them, and the others with what is told next. Who grew late since, and what is
    mended without a turn or an event, shows within ten seconds.
    """
    head_bucket, orders_bucket = time_bucket(now, shift=5), time_bucket(now, shift=7)
    together = int(now.timestamp()) // TURNS_TOGETHER
    ended = shared.get(("turns", together), lambda: turns)
    # Also for a head that is drawn already: else all of them were due with the next one.
    sums = health.share_fleet_sums(now)
    found, through = shared.get(
        ("health", wide, head_bucket),
        lambda: (health.read_health(now, known=sums), ended),
    )

    def draw() -> list[Fragment]:
        as_of = found if ended == through else health.read_progress(found, now)
        return fragments.draw_fleet_head(as_of)

    head = shared.get(("head", wide, ended, head_bucket), draw)
    given = shared.get(("orders", orders, orders_bucket), fragments.draw_newest_orders)
    return [*head, given]


def find_newest_told(
    through: Position | None = None,
) -> tuple[int, int, int, tuple[int, ...]]:
    """The newest events that the head, the orders and the feed are drawn as of.

    The last one that concerns the whole fleet, the last end of a turn, the last one of an
    order, and the last one of each kind of news; 0 for none. None is later in the stream
    than ``through``: a live page is told of those.
    """
    kinds = {*WIDE, *NEWS, Kind.TURN_FINISHED, Kind.ORDER_CHANGED}
    newest = events.find_newest(kinds, through)
    return (
        max((newest.get(kind, 0) for kind in WIDE), default=0),
        newest.get(Kind.TURN_FINISHED, 0),
        newest.get(Kind.ORDER_CHANGED, 0),
        tuple(newest.get(kind, 0) for kind in NEWS),
    )


def share_front(now: datetime) -> list[Fragment]:
    """Head, orders and feed as of the newest events, for a page before its socket."""
    wide, turns, orders, told = find_newest_told()
    return [
        *share_head(now, wide, turns, orders),
        shared.get(("feed", told, time_bucket(now, shift=9)), draw_shared_feed),
    ]
