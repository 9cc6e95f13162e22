"""The ships on the galaxy map, placed at most once in ten seconds for all viewers."""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone
from django.utils.safestring import SafeString

from . import galaxy
from .dirty import Dirty
from .fragments import Fragment, draw
from .galaxy import Chart
from .sending import Sent
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


class MapPage:
    """The galaxy as the ships move."""

    def __init__(self) -> None:
        self.sent = Sent()

    def snapshot(self, version: int) -> list[SafeString]:
        """Where they are."""
        return self._news()

    def changes(self, dirty: Dirty) -> list[SafeString]:
        """What differs; looked at every ten seconds, whatever happens."""
        return self._news()

    def _news(self) -> list[SafeString]:
        return self.sent.news(parts(timezone.now()))
