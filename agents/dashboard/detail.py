"""What the page of one Mysis shows beside the conversation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from agents import budgets
from agents.models import Mysis, Turn
from memory.models import SentContext

from . import charts, credits, fleet, game, limits
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
    limits: Sequence[limits.Limit] = ()


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
        limits=limits.limits_of(budgets.standings(mysis)),
    )


def panel(mysis: Mysis, now: datetime) -> Panel:
    """The game state, empty while no account is active."""
    if mysis.account is None:
        return Panel("", None, ())
    username = mysis.account.username
    found, tick = game.panel(username, now, _beliefs(mysis.pk, username))
    return Panel(mysis.account.username, tick, found)


def _beliefs(mysis_id: int, username: str) -> dict[str, str]:
    """The facts that the newest call was shown, if it was of this account."""
    newest = SentContext.objects.filter(mysis_id=mysis_id).order_by("-id")
    row = newest.values_list("username", "facts").first()
    return dict(row[1]) if row and row[0] == username else {}


def turns(mysis_id: int, limit: int = TURNS) -> list[Turn]:
    """The newest turns, newest first."""
    return list(Turn.objects.filter(mysis_id=mysis_id).order_by("-id")[:limit])


def trend(mysis_id: int) -> credits.Trend | None:
    """How its credits went."""
    return credits.trend(mysis_id)


def gauge(mysis_id: int) -> charts.Gauge | None:
    """The context of the newest call."""
    return fleet.gauges([mysis_id]).get(mysis_id)
