"""What the page of one Mysis shows beside the conversation: head, game state, credits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from agents.dashboard import fleet, game_state
from agents.dashboard.budget_bars import Limit, load_limits
from agents.models import Budget, CreditChange, Mysis, Pin
from memory.models import SentContext
from memory.notes import select_notes
from memory.snapshots.reads import read_moments

# Bounded, by index: a long history opens as fast as a short one.
CHANGES = 300
POINTS = 120
WIDTH, HEIGHT = 240.0, 44.0


@dataclass(frozen=True, slots=True)
class Trend:
    """A line through what was known. ``path`` is of the drawing's own measures."""

    path: str
    first: int
    last: int
    low: int
    high: int
    since: datetime

    @property
    def change(self) -> int:
        """What was won since then; negative for a loss."""
        return self.last - self.first


@dataclass(frozen=True, slots=True)
class Head:
    """The head of the page: who it is, how it fares, what can be done."""

    mysis: Mysis
    row: fleet.FleetRow
    tick: int | None
    limits: Sequence[Limit]
    pins: Sequence[Pin]
    notes: int

    @property
    def own_budget(self) -> bool:
        """Whether one of the budgets is for this Mysis alone."""
        return any(one.budget.scope == Budget.Scope.MYSIS for one in self.limits)


@dataclass(frozen=True, slots=True)
class GamePanel:
    """The cached game state of the active account."""

    account: str
    tick: int | None
    sections: Sequence[game_state.Section]


def load_head(mysis: Mysis, now: datetime) -> Head:
    """Everything above the conversation."""
    [row] = fleet.load_rows([mysis.pk], now)
    pins = mysis.pins.filter(state__in=Pin.STANDING).order_by("pk")
    notes = select_notes(mysis.pk).count()
    tick = _read_tick(row.account, now)
    tick = mysis.tick if tick is None else tick
    return Head(mysis, row, tick, load_limits(mysis), list(pins), notes)


def _read_tick(account: str, now: datetime) -> int | None:
    """The present tick as an account knows it; None without one."""
    return read_moments([account], now)[account].current_tick if account else None


def load_panel(mysis: Mysis, now: datetime) -> GamePanel:
    """The game state, empty while no account is active."""
    if mysis.account is None:
        return GamePanel("", None, ())
    username = mysis.account.username
    found, tick = game_state.load_sections(username, now, _beliefs(mysis.pk, username))
    return GamePanel(mysis.account.username, tick, found)


def _beliefs(mysis_id: int, username: str) -> dict[str, str]:
    """The facts that the newest call was shown, if it was of this account."""
    newest = SentContext.objects.filter(mysis_id=mysis_id).order_by("-id")
    row = newest.values_list("username", "facts").first()
    return dict(row[1]) if row and row[0] == username else {}


def load_credits_trend(username: str) -> Trend | None:
    """The newest changes of an account's credits; None with fewer than two values."""
    rows = CreditChange.objects.filter(username=username).order_by("-id")
    points: list[tuple[datetime, int]] = []
    for at, credits in rows.values_list("at", "credits")[:CHANGES]:
        if credits is None:
            break
        points.append((at, credits))
    return draw_trend(points[::-1])


def draw_trend(points: Sequence[tuple[datetime, int]]) -> Trend | None:
    """A line through values over time; None for fewer than two."""
    if len(points) < 2:
        return None
    chosen = points[:: max(1, len(points) // POINTS)]
    chosen = [*chosen, points[-1]] if chosen[-1] != points[-1] else chosen
    begin, values = chosen[0][0], [value for _, value in chosen]
    low, high = min(values), max(values)
    span = max(1.0, (chosen[-1][0] - begin).total_seconds())
    range_ = max(1, high - low)
    steps = (
        (
            WIDTH * (at - begin).total_seconds() / span,
            2 + (HEIGHT - 4) * (high - value) / range_,
        )
        for at, value in chosen
    )
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in steps)
    return Trend(path, values[0], values[-1], low, high, begin)
