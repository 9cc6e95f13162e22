"""The health page's live parts, made at most once in ten seconds for all viewers."""

from __future__ import annotations

from datetime import datetime

from . import health, machine
from .fragments import Fragment, draw
from .sending import TimedPage
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


def page() -> TimedPage:
    """The state of the machine as time goes on."""
    return TimedPage(
        lambda now: shared.get(("health page", bucket(now)), lambda: parts(now))
    )
