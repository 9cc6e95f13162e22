"""The line that says that all is well, or else what is not and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from django.db.models import Count, Max
from django.urls import reverse

from agents.models import Mysis

from .activity import Spent, fleet_hour
from .addresses import page_key
from .lines import clip

SILENT = timedelta(minutes=5)
SHOWN = 4
ALL = 500
# The front page names the cause; the Mysis's own page has the whole text.
TEXT = 200


@dataclass(frozen=True, slots=True)
class Fix:
    """Where to mend it, for somebody who may."""

    label: str
    link: str


@dataclass(frozen=True, slots=True)
class Trouble:
    """One Mysis that needs somebody, and why."""

    name: str
    key: str
    text: str
    remedy: str
    since: datetime | None
    fix: Fix | None = None


@dataclass(frozen=True, slots=True)
class Health:
    """The fleet in one glance."""

    total: int
    counts: Mapping[str, int]
    recipients: int
    tick: int | None
    newest: datetime | None
    hour: Spent
    troubles: tuple[Trouble, ...]
    more: int

    @property
    def broadcast_cost(self) -> Decimal:
        """What one turn of each recipient would cost, as turns cost of late."""
        return self.hour.per_turn * self.recipients


def look(now: datetime, most: int = SHOWN) -> Health:
    """Count the fleet and gather what is wrong with it."""
    counts = dict.fromkeys(map(str, Mysis.State), 0)
    found = Mysis.objects.values_list("state").annotate(n=Count("id")).order_by()
    counts |= dict(found)
    newest = Mysis.objects.aggregate(tick=Max("tick"), at=Max("last_memory_at"))
    silent = _silent(now)
    named = {one.key for one in silent}
    troubles = [*_errored(), *silent, *_retrying(named), *_held(), *_stuck()]
    return Health(
        total=sum(counts.values()),
        counts=counts,
        recipients=counts["idle"] + counts["running"],
        tick=newest["tick"],
        newest=newest["at"],
        hour=fleet_hour(now),
        troubles=tuple(troubles[:most]),
        more=max(0, len(troubles) - most),
    )


def _errored() -> list[Trouble]:
    rows = Mysis.objects.filter(state=Mysis.State.ERRORED).order_by("name")
    return [
        Trouble(
            name=mysis.name,
            key=page_key(mysis),
            text=clip(mysis.last_error, TEXT)
            or "It stopped with an error that left no text.",
            remedy="Mend the cause, then start it again.",
            since=mysis.last_memory_at,
            fix=fix_of(mysis),
        )
        for mysis in rows
    ]


def _retrying(listed: set[str]) -> list[Trouble]:
    """Running after a failed turn: the error stays until a turn goes well."""
    rows = Mysis.objects.filter(state=Mysis.State.RUNNING).exclude(last_error="")
    found = [
        Trouble(
            name=mysis.name,
            key=page_key(mysis),
            text=clip(mysis.last_error, TEXT),
            remedy="It tries again by itself.",
            since=mysis.last_memory_at,
        )
        for mysis in rows.order_by("name")
    ]
    return [one for one in found if one.key not in listed]


def _silent(now: datetime) -> list[Trouble]:
    """Running for long without a line, though nothing is being waited for."""
    rows = Mysis.objects.filter(
        state=Mysis.State.RUNNING, last_memory_at__lt=now - SILENT
    ).exclude(wake_at__gt=now - SILENT)
    return [
        Trouble(
            name=mysis.name,
            key=page_key(mysis),
            text="It runs, but has written nothing for more than five minutes.",
            remedy="See that a worker runs: manage.py procrastinate worker.",
            since=mysis.last_memory_at,
        )
        for mysis in rows.order_by("name")
    ]


def _held() -> list[Trouble]:
    """Running, and a budget allows no call."""
    link = reverse("admin:agents_budget_changelist")
    return [
        Trouble(
            name=mysis.name,
            key=page_key(mysis),
            text=clip(mysis.hold, TEXT),
            remedy="",
            since=mysis.last_memory_at,
            fix=Fix("Budgets", link),
        )
        for mysis in Mysis.objects.exclude(hold="").order_by("name")
    ]


def _stuck() -> list[Trouble]:
    """Running, and getting nowhere."""
    rows = Mysis.objects.filter(state=Mysis.State.RUNNING).exclude(stuck="")
    return [
        Trouble(
            name=mysis.name,
            key=page_key(mysis),
            text=clip(mysis.stuck, TEXT),
            remedy="",
            since=mysis.last_memory_at,
        )
        for mysis in rows.order_by("name")
    ]


def fix_of(mysis: Mysis) -> Fix | None:
    """The form that mends an error, as far as its words tell which."""
    words = mysis.last_error.lower()
    if "key" in words or "provider with" in words:
        return Fix("Providers", reverse("admin:agents_provider_changelist"))
    if "model" in words or "provider" in words:
        link = reverse("admin:agents_mysis_change", args=[mysis.pk])
        return Fix("Change its model", link)
    if "game" in words:
        return Fix("Health", reverse("health"))
    return None
