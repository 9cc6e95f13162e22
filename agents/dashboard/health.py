"""How the fleet is: what is wrong with it, what it has and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import TypeVar

from django.db.models import Count, Max, Sum

from agents.dashboard import budget_bars, game_state, system_status
from agents.dashboard.budget_bars import Limit
from agents.dashboard.charts import (
    HOUR,
    FleetHour,
    find_first_turn_since,
    load_fleet_hour,
)
from agents.dashboard.flags import count_flags, share_flags
from agents.dashboard.shared_results import shared, time_bucket
from agents.dashboard.troubles import Trouble, find_troubles, join_equal
from agents.idle import IdleGroup, Idlers, read_idlers
from agents.models import (
    Account,
    AlertTarget,
    Mysis,
    Usage,
)
from agents.usage import today

T = TypeVar("T")
# How many troubles, and lines of those that idle, the front page and the health page show.
SHOWN, ALL_TROUBLES = 4, 500
IDLE_SHOWN = 3


@dataclass(frozen=True, slots=True)
class FleetMoney:
    """The credits of all accounts that are flown, as far as they are known.

    ``known`` Myses tell theirs; ``oldest`` is when the oldest of these answers was
    made. ``today`` are US dollars since 00:00 UTC.
    """

    credits: int = 0
    known: int = 0
    oldest: datetime | None = None
    today: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True)
class FleetSums:
    """What the fleet has, spends, and shows in its filters: dearer to count."""

    hour: FleetHour
    purse: FleetMoney
    limits: tuple[Limit, ...]
    flags: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Health:
    """The fleet at one glance. ``workers`` are those that were alive a minute ago."""

    total: int
    counts: Mapping[str, int]
    recipients: int
    tick: int | None
    newest: datetime | None
    troubles: tuple[Trouble, ...]
    more: int
    workers: int
    heartbeat: datetime | None
    sums: FleetSums
    idle: Idlers
    # Targets of alerts that cannot be told.
    dead_targets: Sequence[AlertTarget] = ()

    @property
    def waits(self) -> bool:
        """Whether the whole fleet waits for a word: some idle, and nobody plays."""
        return bool(self.idle.total and not self.counts["running"])

    @property
    def idle_groups(self) -> tuple[IdleGroup, ...]:
        """Those that idle and need somebody: all where nobody plays, else the unasked."""
        done = self.idle.asked_groups if self.waits else ()
        return (*self.idle.groups, *done)

    @property
    def idle_shown(self) -> tuple[IdleGroup, ...]:
        return self.idle_groups[:IDLE_SHOWN]

    @property
    def idle_more(self) -> int:
        """The Myses in groups that are not shown."""
        return sum(group.count for group in self.idle_groups[IDLE_SHOWN:])

    @property
    def all_well(self) -> bool:
        """Whether nothing is wrong, and nobody stands still who should not."""
        wrong = self.troubles or self.dead_targets or self.idle_groups
        return bool(self.total and self.workers and not wrong)

    @property
    def broadcast_cost(self) -> Decimal:
        """What one turn of each recipient would cost, as turns cost of late."""
        return self.sums.hour.per_turn * self.recipients


def read_health(
    now: datetime, most: int = SHOWN, known: FleetSums | None = None
) -> Health:
    """Count the fleet and gather what is wrong with it.

    ``known`` are sums of a moment ago, for who asks at every event.
    """
    counts = dict.fromkeys(map(str, Mysis.State), 0)
    newest = {"tick": Max("tick"), "at": Max("last_memory_at")}
    grouped = Mysis.objects.values_list("state").annotate(n=Count("id"), **newest)
    found = list(grouped.order_by())
    counts |= {state: count for state, count, *_ in found}
    troubles, more = _read_troubles(now, most)
    workers, heartbeat = system_status.count_workers(now)
    return Health(
        total=sum(counts.values()),
        counts=counts,
        recipients=counts["idle"] + counts["running"],
        tick=max((tick for *_, tick, _ in found if tick is not None), default=None),
        newest=max((at for *_, at in found if at is not None), default=None),
        troubles=troubles,
        more=more,
        idle=read_idlers() if counts["idle"] else Idlers(),
        workers=workers,
        heartbeat=heartbeat,
        sums=known or add_up_fleet(now),
        dead_targets=AlertTarget.list_dead(),
    )


def read_progress(found: Health, now: datetime) -> Health:
    """The same, with all that the end of a turn may change.

    A turn that failed and is tried again changes no state, and tells of no error.
    """
    newest = Mysis.objects.aggregate(tick=Max("tick"), newest=Max("last_memory_at"))
    troubles, more = _read_troubles(now, SHOWN)
    return replace(found, troubles=troubles, more=more, **newest)


def _read_troubles(now: datetime, most: int) -> tuple[tuple[Trouble, ...], int]:
    """The worst troubles, and how many more there are."""
    wrong = join_equal(find_troubles(now))
    return tuple(wrong[:most]), max(0, len(wrong) - most)


def add_up_fleet(now: datetime) -> FleetSums:
    """Add up what the fleet has and spends."""
    return FleetSums(
        load_fleet_hour(find_first_turn_since(now - HOUR)),
        read_fleet_money(),
        budget_bars.load_fleet_limits(),
        count_flags(),
    )


def share_fleet_sums(now: datetime) -> FleetSums:
    """The sums of the fleet, each added up once in ten seconds for all who look.

    They change with every turn: they are a little old here, so that the rows of those
    who did something need not wait for them. No two are due at the same moment.
    """

    def share(name: str, shift: int, add_up: Callable[[], T]) -> T:
        return shared.get(("sum", name, time_bucket(now, shift)), add_up)

    return FleetSums(
        share("hour", 0, lambda: load_fleet_hour(find_first_turn_since(now - HOUR))),
        share("purse", 2, read_fleet_money),
        share("limits", 4, budget_bars.load_fleet_limits),
        share_flags(now),
    )


def read_fleet_money() -> FleetMoney:
    """What the fleet has, and costs today; as many queries for any number of Myses."""
    flown = Account.objects.exclude(active_mysis=None)
    names = flown.values_list("username", flat=True)
    held = game_state.load_snapshots(names, "get_status")
    known = [
        (one.credits, one.snapshot.captured_at)
        for each in held.values()
        for one in each
        if one.credits is not None and not one.snapshot.args
    ]
    cost = Usage.objects.filter(day=today()).aggregate(cost=Sum("cost"))["cost"]
    return FleetMoney(
        credits=sum(amount for amount, _ in known),
        known=len(known),
        oldest=min((at for _, at in known), default=None),
        today=cost or Decimal(0),
    )
