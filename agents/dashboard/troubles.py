"""What needs somebody: one entry a Mysis, with all that is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.urls import reverse

from agents.models import Mysis

from .addresses import page_key
from .fixes import ALL, Fix, fix_of, providers
from .lines import clip

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
        mysis.name, page_key(mysis), clip(text, TEXT), remedy, mysis.last_memory_at, fix
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
        link = f"{reverse('mysis', args=[page_key(mysis)])}#composer"
        fix = Fix("Message it", link, "operator-only")
        yield _trouble(mysis, mysis.stuck, remedy, fix)
