"""Where to mend what stopped a Mysis: every error leads to a form or a page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from django.db.models import Count, Max, Sum
from django.urls import reverse

from agents.dashboard import budget_bars, fleet, game_state, system_status
from agents.dashboard.accounts import credits_in
from agents.dashboard.budget_bars import Limit
from agents.dashboard.charts import Spent, fleet_hour
from agents.dashboard.conversation import clip
from agents.llm.endpoints import heads
from agents.models import Account, Mysis, Provider, Usage
from agents.usage import today

# What only an admin may open is shown to admins only.
ADMINS, ALL = "admin-only", ""

# By the sentences that errors are kept as; what none of them names is mended in the
# Mysis's own form. The first that fits counts.
NO_MODEL = re.compile(r"no provider is named|names a provider but no model", re.I)
CONTEXT = re.compile(r"context policy|budget|window|answered 413", re.I)
REQUEST = re.compile(r"answered 400|the request that was sent", re.I)
PROVIDER = re.compile(
    r"api key|the key of provider|base url|answered \d{3}|provider is up|"
    r"could not be reached|the provider|no completion|out of reach",
    re.I,
)
KEY = re.compile(r"api key|answered 40[123]", re.I)
GAME = re.compile(r"\bgame\b", re.I)
ACCOUNT = re.compile(r"\baccount\b|password|registration", re.I)


@dataclass(frozen=True, slots=True)
class Fix:
    """Where to mend it; ``css`` names who may."""

    label: str
    link: str
    css: str = ADMINS


def providers() -> Mapping[str, int]:
    """Numbers of the providers in the database, by name."""
    return dict(Provider.objects.values_list("name", "pk"))


def fix_of(mysis: Mysis, known: Mapping[str, int]) -> Fix:
    """The form or page that mends its last error; ``known`` are the providers."""
    words = mysis.last_error
    if NO_MODEL.search(words):
        return _own(mysis, "Change its model")
    if words.startswith(mysis.model) or not GAME.search(words):
        return _mind(mysis, words, known)
    if ACCOUNT.search(words):
        return Fix("Accounts", reverse("accounts"), ALL)
    return Fix("Health", reverse("health"), ALL)


def _mind(mysis: Mysis, words: str, known: Mapping[str, int]) -> Fix:
    """An error of its model or of its context."""
    if REQUEST.search(words):
        return Fix(
            "What was sent", reverse("mysis-context", args=[mysis.page_key]), ALL
        )
    if CONTEXT.search(words):
        return _policy(mysis)
    if PROVIDER.search(words):
        return _provider(mysis, known)
    return _own(mysis, "Its settings")


def _own(mysis: Mysis, label: str) -> Fix:
    return Fix(label, reverse("admin:agents_mysis_change", args=[mysis.pk]))


def _policy(mysis: Mysis) -> Fix:
    if mysis.policy_id is None:
        return _own(mysis, "Give it a context policy")
    link = reverse("admin:memory_contextpolicy_change", args=[mysis.policy_id])
    return Fix("Its context policy", link)


def _provider(mysis: Mysis, known: Mapping[str, int]) -> Fix:
    """The form of the provider that its model belongs to, or that of a new one."""
    found = next((name for name in heads(mysis.model) if name in known), None)
    if found is None and not KEY.search(mysis.last_error):
        # It comes from the environment: what can be mended here is the name.
        return _own(mysis, "Change its model")
    if found is None:
        return Fix("Add its provider", reverse("admin:agents_provider_add"))
    link = reverse("admin:agents_provider_change", args=[known[found]])
    return Fix(f"Provider {found}", link)


# SECTION What needs somebody: one entry a Mysis, with all that is wrong with it.

SILENT = timedelta(minutes=5)
# The front page names the cause; the Mysis's own page has the whole text.
TEXT = 200


@dataclass(frozen=True, slots=True)
class Trouble:
    """One Mysis that needs somebody, why, and where to mend it."""

    name: str
    key: str
    text: str
    remedy: str
    since: datetime | None
    fix: Fix


def find(now: datetime) -> list[Trouble]:
    """All of them, the worst first; a Mysis stands in the list once."""
    found: dict[str, Trouble] = {}
    known = providers()
    worst = (*_errored(known), *_silent(now), *_retrying(known), *_held(), *_stuck())
    for one in worst:
        first = found.get(one.key)
        found[one.key] = one if first is None else _joined(first, one)
    return list(found.values())


def _joined(first: Trouble, other: Trouble) -> Trouble:
    return replace(first, text=f"{first.text} {other.text}")


def _trouble(mysis: Mysis, text: str, remedy: str, fix: Fix) -> Trouble:
    return Trouble(
        mysis.name, mysis.page_key, clip(text, TEXT), remedy, mysis.last_memory_at, fix
    )


def _errored(known: Mapping[str, int]) -> Iterable[Trouble]:
    rows = Mysis.objects.filter(state=Mysis.State.ERRORED).order_by("name")
    for mysis in rows:
        text = mysis.last_error or "It stopped with an error that left no text."
        remedy = "Mend the cause, then start it again."
        yield _trouble(mysis, text, remedy, fix_of(mysis, known))


def _retrying(known: Mapping[str, int]) -> Iterable[Trouble]:
    """Running after a failed turn: the error stays until a turn goes well."""
    rows = Mysis.objects.filter(state=Mysis.State.RUNNING).exclude(last_error="")
    for mysis in rows.order_by("name"):
        remedy = "It tries again by itself."
        yield _trouble(mysis, mysis.last_error, remedy, fix_of(mysis, known))


def _silent(now: datetime) -> Iterable[Trouble]:
    """Running for long without a line, though nothing is being waited for."""
    rows = Mysis.objects.filter(
        state=Mysis.State.RUNNING, last_memory_at__lt=now - SILENT
    ).exclude(wake_at__gt=now - SILENT)
    fix = Fix("Health", reverse("health"), ALL)
    for mysis in rows.order_by("name"):
        text = "It runs, but has written nothing for more than five minutes."
        yield _trouble(mysis, text, "See that workers run and keep up.", fix)


def _held() -> Iterable[Trouble]:
    """Running, and a budget allows no call."""
    fix = Fix("Budgets", reverse("admin:agents_budget_changelist"))
    for mysis in Mysis.objects.exclude(hold="").order_by("name"):
        remedy = "Raise the budget, or wait until its period ends."
        yield _trouble(mysis, mysis.hold, remedy, fix)


def _stuck() -> Iterable[Trouble]:
    """Running, and getting nowhere."""
    rows = Mysis.objects.filter(state=Mysis.State.RUNNING).exclude(stuck="")
    for mysis in rows.order_by("name"):
        remedy = "Read its last turns and tell it what to do."
        link = f"{reverse('mysis', args=[mysis.page_key])}#composer"
        fix = Fix("Message it", link, "operator-only")
        yield _trouble(mysis, mysis.stuck, remedy, fix)


# SECTION What the fleet has and what it costs today.

STATUS = "get_status"


@dataclass(frozen=True, slots=True)
class FleetMoney:
    """The credits of all accounts that are flown, as far as they are known.

    ``known`` of the Myses tell theirs; ``oldest`` is when the oldest of these answers
    was made. ``today`` are US dollars since 00:00 UTC.
    """

    credits: int = 0
    known: int = 0
    oldest: datetime | None = None
    today: Decimal = Decimal(0)


def read_fleet_money() -> FleetMoney:
    """Read it; three queries for any number of Myses."""
    flown = Account.objects.exclude(active_mysis=None)
    names = list(flown.values_list("username", flat=True))
    answers = [
        one.snapshot for held in game_state.held(names, STATUS).values() for one in held
    ]
    told = [(credits_in(one), one.captured_at) for one in answers if not one.args]
    sums = [(amount, at) for amount, at in told if amount is not None]
    cost = Usage.objects.filter(day=today()).aggregate(cost=Sum("cost"))["cost"]
    return FleetMoney(
        credits=sum(amount for amount, _ in sums),
        known=len(sums),
        oldest=min((at for _, at in sums), default=None),
        today=cost or Decimal(0),
    )


# SECTION The line that says that all is well, or else what is not and what to do.

SHOWN = 4
ALL_TROUBLES = 500


@dataclass(frozen=True, slots=True)
class Sums:
    """What the fleet has, spends, and shows in its filters: dearer to count."""

    hour: Spent
    purse: FleetMoney
    limits: tuple[Limit, ...]
    flags: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Health:
    """The fleet in one glance. ``workers`` are those that were alive a minute ago."""

    total: int
    counts: Mapping[str, int]
    recipients: int
    tick: int | None
    newest: datetime | None
    troubles: tuple[Trouble, ...]
    more: int
    workers: int
    heartbeat: datetime | None
    sums: Sums

    @property
    def broadcast_cost(self) -> Decimal:
        """What one turn of each recipient would cost, as turns cost of late."""
        return self.sums.hour.per_turn * self.recipients


def sums(now: datetime) -> Sums:
    """Add it up."""
    return Sums(
        fleet_hour(now), read_fleet_money(), budget_bars.of_fleet(), fleet.flag_counts()
    )


def read_health(now: datetime, most: int = SHOWN, known: Sums | None = None) -> Health:
    """Count the fleet and gather what is wrong with it.

    ``known`` are sums of a moment ago, for who looks at every event.
    """
    counts = dict.fromkeys(map(str, Mysis.State), 0)
    found = Mysis.objects.values_list("state").annotate(n=Count("id")).order_by()
    counts |= dict(found)
    newest = Mysis.objects.aggregate(tick=Max("tick"), at=Max("last_memory_at"))
    wrong = find(now)
    workers, heartbeat = system_status.workers(now)
    return Health(
        total=sum(counts.values()),
        counts=counts,
        recipients=counts["idle"] + counts["running"],
        tick=newest["tick"],
        newest=newest["at"],
        troubles=tuple(wrong[:most]),
        more=max(0, len(wrong) - most),
        workers=workers,
        heartbeat=heartbeat,
        sums=known or sums(now),
    )
