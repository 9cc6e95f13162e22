"""What the page of one Mysis shows beside the conversation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from agents.models import Mysis, Turn

from . import charts, credits, fleet, game
from .addresses import page_key

TURNS = 12


@dataclass(frozen=True, slots=True)
class Head:
    """The head of the page: who it is, how it fares, what can be done."""

    mysis: Mysis
    key: str
    row: fleet.FleetRow
    policy: str
    prompt: str


@dataclass(frozen=True, slots=True)
class Panel:
    """The cached game state of the active account."""

    account: str
    tick: int | None
    sections: Sequence[game.Section]


def head(mysis: Mysis, now: datetime) -> Head:
    """Everything above the conversation."""
    [row] = fleet.load([mysis.pk], now)
    return Head(
        mysis=mysis,
        key=page_key(mysis),
        row=row,
        policy=mysis.policy.name if mysis.policy else "built-in policy",
        prompt=mysis.prompt.name if mysis.prompt else "built-in prompt",
    )


def panel(mysis: Mysis, now: datetime) -> Panel:
    """The game state, empty while no account is active."""
    if mysis.account is None:
        return Panel("", None, ())
    found, tick = game.panel(mysis.account.username, now)
    return Panel(mysis.account.username, tick, found)


def turns(mysis_id: int, limit: int = TURNS) -> list[Turn]:
    """The newest turns, newest first."""
    return list(Turn.objects.filter(mysis_id=mysis_id).order_by("-id")[:limit])


def trend(mysis_id: int) -> credits.Trend | None:
    """How its credits went."""
    return credits.trend(mysis_id)


def gauge(mysis_id: int) -> charts.Gauge | None:
    """The context of the newest call."""
    return fleet.gauges([mysis_id]).get(mysis_id)
