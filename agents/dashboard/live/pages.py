"""The live pages that change with time: orders, map, yield, lanes, health, alerts.

A live page draws all that is live at first, then what changed. It is synchronous, for a
worker thread, one object per viewer, and remembers the version of every fragment that the
viewer has, so that only what differs is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

from django.utils import timezone
from django.utils.safestring import SafeString

from agents import events
from agents.dashboard import health, map, system_status
from agents.dashboard.compare import CompareView, share_comparison
from agents.dashboard.lane_chart import draw_lanes
from agents.dashboard.lanes import LanesView, share_lanes
from agents.dashboard.live.changes import Dirty
from agents.dashboard.live.fragments import Fragment, SentVersions, draw_fragment
from agents.dashboard.map import Chart
from agents.dashboard.shared_results import shared, time_bucket
from agents.dashboard.yield_board import YieldView, load_board
from agents.events import Kind, Position
from agents.models import Alert, AlertTarget

YIELD_PARTS = ("marks", "lines")
# Alerts that are over, on their page.
OVER = 30
HEALTH_PARTS = ("troubles", "work", "fleet", "budgets", "models", "failures")


class LivePage(Protocol):
    """One viewer's page."""

    def draw_all(self, through: Position) -> list[SafeString]:
        """Everything that is live on the page, read now.

        What came after ``through`` in the stream, the viewer is told of later.
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

    def draw_all(self, through: Position) -> list[SafeString]:
        return self._draw()

    def draw_changes(self, dirty: Dirty) -> list[SafeString]:
        return self._draw()

    def _draw(self) -> list[SafeString]:
        now = timezone.now()
        key = ("page", self.name, time_bucket(now))
        return self.sent.draw_news(shared.get(key, lambda: self.draw(now)))


class OrdersPage:
    """A page of orders: drawn again when one has changed, and now and then."""

    def __init__(self, name: str, draw: Callable[[], Fragment]) -> None:
        self.name = name
        self.draw = draw
        self.newest = 0
        self.sent = SentVersions()

    def draw_all(self, through: Position) -> list[SafeString]:
        # That of all who look, so that it is drawn once.
        newest = events.find_newest([Kind.ORDER_CHANGED], through)
        self.newest = newest.get(Kind.ORDER_CHANGED, 0)
        return self._draw()

    def draw_changes(self, dirty: Dirty) -> list[SafeString]:
        self.newest = dirty.orders or self.newest
        return self._draw()

    def _draw(self) -> list[SafeString]:
        key = (self.name, self.newest, time_bucket(timezone.now()))
        return self.sent.draw_news([shared.get(key, self.draw)])


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
