"""The health page's live parts, made at most once in ten seconds for all viewers."""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone
from django.utils.safestring import SafeString

from . import health, machine
from .dirty import Dirty
from .fragments import Fragment, draw
from .sending import Sent
from .shared import bucket, shared

PARTS = ("troubles", "work", "fleet", "budgets", "models", "failures")


def parts(now: datetime) -> list[Fragment]:
    """Everything on the page that changes by itself."""
    context = {
        "health": health.look(now, most=health.ALL),
        "machine": machine.look(now),
    }
    return [
        Fragment(f"health-{name}", draw(f"health_{name}", **context)) for name in PARTS
    ]


class HealthPage:
    """The state of the machine as time goes on."""

    def __init__(self) -> None:
        self.sent = Sent()

    def snapshot(self, version: int) -> list[SafeString]:
        """All of it."""
        return self._news()

    def changes(self, dirty: Dirty) -> list[SafeString]:
        """What differs; looked at every ten seconds, whatever happens."""
        return self._news()

    def _news(self) -> list[SafeString]:
        now = timezone.now()
        return self.sent.news(
            shared.get(("health page", bucket(now)), lambda: parts(now))
        )
