"""The ships on the galaxy map, placed at most once in ten seconds for all viewers."""

from __future__ import annotations

from datetime import datetime

from . import galaxy
from .fragments import Fragment, draw
from .galaxy import Chart
from .sending import TimedPage
from .shared import bucket, shared


def on_map(chart: Chart) -> Fragment:
    """The ships over the drawing, and the list of where they are."""
    return Fragment(
        "map-ships", draw("map_ships", chart=chart, fleet=galaxy.fleet(chart))
    )


def parts(now: datetime) -> list[Fragment]:
    """What of the map changes by itself; nothing while there is no map."""

    def make() -> list[Fragment]:
        chart = galaxy.chart()
        return [on_map(chart)] if chart else []

    return shared.get(("ships", bucket(now)), make)


def page() -> TimedPage:
    """The galaxy as the ships move."""
    return TimedPage(parts)
