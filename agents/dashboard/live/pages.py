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

from agents import events
from agents.dashboard import conversation, feed, fleet, health, map, system_status
from agents.dashboard import mysis as dashboard_mysis
from agents.dashboard.compare import CompareView, share_comparison
from agents.dashboard.conversation import Line
from agents.dashboard.event_kinds import NEWS
from agents.dashboard.fleet import FleetRow, FleetRows
from agents.dashboard.lane_chart import draw_lanes
from agents.dashboard.lanes import LanesView, share_lanes
from agents.dashboard.live import events_page, fragments
from agents.dashboard.live.changes import WIDE, Dirty
from agents.dashboard.live.fragments import Fragment, SentVersions, draw_fragment
from agents.dashboard.map import Chart
from agents.dashboard.shared_results import shared, time_bucket
from agents.dashboard.yield_board import YieldView, load_board
from agents.models import Alert, AlertTarget, Mysis

# Lines since the viewer's newest above which the conversation is drawn anew.
LOG_GAP = 200
PENDING = 50
YIELD_PARTS = ("marks", "lines")
# Alerts that are over, on their page.
OVER = 30
HEALTH_PARTS = ("troubles", "work", "fleet", "budgets", "models", "failures")


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
            newest = conversation.load_newest_lines(self.mysis)
            self.note(newest)
            return [fragments.swap_fragment(fragments.draw_log(newest, self.mysis))]
        if not news.fresh:
            return [*news.changed]
        added = fragments.draw_log_lines(news.fresh, self.mysis)
        return [*news.changed, fragments.append_items("log", "beforeend", added)]

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


class LivePage(Protocol):
    """One viewer's page."""

    def draw_all(self, version: int) -> list[SafeString]:
        """Everything that is live on the page, read now.

        ``version`` is the id of the newest event that the viewer's stream
        has left behind.
        """

    def draw_changes(self, dirty: Dirty) -> list[SafeString]:
        """What differs from what the viewer has."""


class TimedPage:
    """A live page that changes with time: drawn once in ten seconds for all viewers."""

    def __init__(
        self, name: str, draw: Callable[[datetime], Sequence[Fragment]]
    ) -> None:
        self.name = name
        self.draw = draw
        self.sent = SentVersions()

    def draw_all(self, version: int) -> list[SafeString]:
        now = timezone.now()
        key = ("page", self.name, time_bucket(now))
        return self.sent.draw_news(shared.get(key, lambda: self.draw(now)))

    def draw_changes(self, dirty: Dirty) -> list[SafeString]:
        return self.draw_all(0)


def draw_shared_rows(rows: FleetRows) -> Fragment:
    """The list of rows; its version stands for what a page with it shows."""
    fragment = fragments.draw_fleet_rows(rows)
    shared.get(("drawn", fragment.version), lambda: rows)
    return fragment


def share_sums(now: datetime) -> health.FleetSums:
    """The sums of the fleet, added up once in ten seconds for all who look.

    They change with every turn: they are a little old here, so that the rows of those
    who did something need not wait for them. A new socket brings those of its moment.
    """
    return shared.get(("sums", time_bucket(now)), lambda: health.add_up_fleet(now))


def share_head(now: datetime, wide: int, orders: int) -> list[Fragment]:
    """The head and the last orders as of these events, drawn once for all who look.

    Who grew late since, and what is mended without an event, shows with the next
    ten seconds.
    """
    head_bucket, orders_bucket = time_bucket(now, shift=5), time_bucket(now, shift=7)
    head = shared.get(("health", wide, head_bucket), lambda: _draw_head(now))
    given = shared.get(("orders", orders, orders_bucket), fragments.draw_newest_orders)
    return [*head, given]


def _draw_head(now: datetime) -> list[Fragment]:
    return fragments.draw_fleet_head(health.read_health(now, known=share_sums(now)))


def share_front(now: datetime) -> list[Fragment]:
    """Head, orders and feed as of the newest events, for a page before its socket."""
    newest = events.find_newest(set[str](WIDE).union(NEWS))
    wide = max((newest.get(kind, 0) for kind in WIDE), default=0)
    told = tuple(newest.get(kind, 0) for kind in NEWS)
    return [
        *share_head(now, wide, newest.get(events.Kind.ORDER_CHANGED, 0)),
        shared.get(
            ("feed", told, time_bucket(now, shift=7)), fragments.draw_newest_feed
        ),
    ]


class OrdersPage:
    """A page of orders: drawn again when one has changed, and now and then."""

    def __init__(self, name: str, draw: Callable[[], Fragment]) -> None:
        self.name = name
        self.draw = draw
        self.newest = 0
        self.sent = SentVersions()

    def draw_all(self, version: int) -> list[SafeString]:
        self.newest = version
        key = (self.name, version, time_bucket(timezone.now()))
        return self.sent.draw_news([shared.get(key, self.draw)])

    def draw_changes(self, dirty: Dirty) -> list[SafeString]:
        return self.draw_all(dirty.orders or self.newest)


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
        self.newest = self.wide = self.orders = 0

    def draw_all(self, version: int) -> list[SafeString]:
        """Head, all rows, the feed; of the last two what the viewer has not got."""
        now = timezone.now()
        self.newest = self.wide = self.orders = version
        rows = fleet.load_view(self.view, now)
        head = self.sent.draw_news(
            [
                *fragments.draw_fleet_head(health.read_health(now)),
                *events_page.draw_group_counts(),
                fragments.draw_newest_orders(),
            ]
        )
        shown, told = self.has
        newest = fragments.draw_newest_feed()
        feed = [] if newest.version == told else [fragments.swap_fragment(newest)]
        return [*self._since(shared.peek(("drawn", shown)), rows), *head, *feed]

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
        self.orders = dirty.orders or self.orders
        if dirty.everything:
            return [*self._recheck(now), *_draw_feed(dirty)]
        swaps: list[SafeString] = []
        if dirty.wide and self._matching() != self.matching:
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
        key = ("matching", self.view, self.wide)
        return shared.get(key, lambda: frozenset(fleet.find_matching_ids(self.view)))

    def _head(self, now: datetime) -> list[SafeString]:
        head = share_head(now, self.wide, self.orders)
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


class MysisPage:
    """One Mysis: head, state, turns, and its `ConversationFeed` as it grows."""

    def __init__(
        self, mysis: Mysis, after: int | None, pending: Iterable[int] = ()
    ) -> None:
        self.mysis_id = mysis.pk
        self.version = 0
        self.sent = SentVersions()
        self.talk = ConversationFeed(mysis, after, pending)

    def draw_all(self, version: int) -> list[SafeString]:
        self.version = version
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
        return [*self.sent.draw_news(parts), *self.talk.draw_news()]

    def _draw(self, now: datetime) -> list[Fragment]:
        rows = Mysis.objects.select_related("account", "policy", "prompt")
        mysis = rows.filter(pk=self.mysis_id).first()
        if mysis is None:
            return [Fragment("mysis-error", fragments.draw_template("mysis/gone"))]
        return fragments.draw_mysis(dashboard_mysis.load_head(mysis, now), now)


def draw_ships(chart: Chart) -> list[Fragment]:
    """The ships over the drawing, the list of where they are, and whence they came."""
    fleet_now = map.place_ships(chart)
    return [
        draw_fragment(f"map/{name}", chart=chart, fleet=fleet_now)
        for name in ("ships", "trails")
    ]


def draw_map_parts(now: datetime) -> list[Fragment]:
    """Where the ships are now and how they came there; nothing while there is no map."""
    chart = map.load_chart()
    return draw_ships(chart) if chart else []


def draw_map_arrived(now: datetime) -> list[Fragment]:
    """What tells a page that was loaded without a map that there is one now."""
    return [draw_fragment("map/arrived", chart=map.load_chart())]


def draw_yield_parts(view: YieldView, now: datetime) -> list[Fragment]:
    """The yield board, and what its changes of prompt, policy or model brought."""
    board = load_board(view, now)
    return [draw_fragment(f"yield/{name}", board=board) for name in YIELD_PARTS]


def draw_lanes_parts(view: LanesView, now: datetime) -> list[Fragment]:
    """What everybody did over time, as a drawing or as tables."""
    found = share_lanes(view, now)
    if view.table:
        return [draw_fragment("lanes/table", lanes=found, view=view)]
    return [draw_fragment("lanes/chart", chart=draw_lanes(found), view=view)]


def draw_compare_parts(view: CompareView, now: datetime) -> list[Fragment]:
    """Two Myses side by side; says so where one of them is gone."""
    return [draw_fragment("compare/sides", found=share_comparison(view, now))]


def draw_health_parts(now: datetime) -> list[Fragment]:
    """Everything on the health page that changes by itself."""
    context = {
        "health": health.read_health(now, most=health.ALL_TROUBLES),
        "machine": system_status.read_machine(now),
    }
    return [draw_fragment(f"health/{name}", **context) for name in HEALTH_PARTS]


def draw_alert_parts(now: datetime) -> list[Fragment]:
    """The alerts that are open, those that were, and who is told of them."""
    rows = Alert.objects.order_by("-pk")
    targets = AlertTarget.objects.order_by("name")
    return [
        draw_fragment("alerts/open", alerts=rows.filter(cleared_at=None)[:500]),
        draw_fragment("alerts/over", alerts=rows.exclude(cleared_at=None)[:OVER]),
        draw_fragment("alerts/targets", targets=targets),
    ]
