"""Budgets as the pages show them: what is spent, what is left, and how near the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, NamedTuple

from django.db.models import F, OuterRef, Q, Subquery
from django.db.models.functions import Greatest, NullIf
from django.urls import reverse

from agents import budgets
from agents.budgets import Amount, BudgetStatus
from agents.models import Budget, BudgetSpend, Mysis
from agents.usage import today

# Per cent of a budget from which on it is near its end, and budgets on the front page.
NEAR = 80
SHOWN = 6
ALL = Decimal(100)


class Nearest(NamedTuple):
    """The Mysis that is nearest the end of a budget of each, and its own sums."""

    name: str = ""
    spent: Amount = budgets.NOTHING


NOBODY = Nearest()


@dataclass(frozen=True, slots=True)
class Limit:
    """One budget. Of one of each Mysis ``spent`` is that of ``who``, the nearest."""

    name: str
    whom: str
    who: str
    daily: bool
    each: bool
    link: str
    tokens: int | None
    cost: Decimal | None
    spent: Amount

    @property
    def nearest(self) -> Literal["cost", "tokens"]:
        """Which of its limits ends it first, as things are."""
        shares = self._shares()
        return max(shares, key=lambda one: shares[one])

    @property
    def percent(self) -> int:
        """How much of it is spent, by what is nearest its end; rounded down."""
        return max(0, int(self._shares()[self.nearest]))

    def _shares(self) -> dict[Literal["cost", "tokens"], Decimal]:
        found: dict[Literal["cost", "tokens"], Decimal] = {}
        if self.cost is not None:
            found["cost"] = 100 * self.spent.cost / self.cost if self.cost else ALL
        if self.tokens is not None:
            used = Decimal(100 * self.spent.tokens)
            found["tokens"] = used / self.tokens if self.tokens else ALL
        return found

    @property
    def bar(self) -> int:
        return min(100, self.percent)

    @property
    def level(self) -> str:
        if self.percent >= 100:
            return "spent"
        return "near" if self.percent >= NEAR else "fine"

    @property
    def left(self) -> Amount:
        """What is left of each limit; nothing where there is none."""
        return Amount(
            max(0, (self.tokens or 0) - self.spent.tokens),
            max(Decimal(0), (self.cost or Decimal(0)) - self.spent.cost),
        )


def load_fleet_limits() -> tuple[Limit, ...]:
    """All budgets, the nearest to its end first; two queries, or three."""
    rows = list(Budget.objects.select_related("mysis", "policy").order_by("name"))
    each = [row for row in rows if row.scope == Budget.Scope.EACH]
    who = _nearest(each) if each else {}
    found = [
        _limit(one, who.get(one.budget.pk, NOBODY))
        for one in budgets.read_budget_statuses(rows)
    ]
    return tuple(sorted(found, key=lambda one: -one.percent))


def make_limits(found: Iterable[BudgetStatus]) -> tuple[Limit, ...]:
    """Budgets as bars, with what is spent of them."""
    return tuple(map(_limit, found))


def _nearest(each: Sequence[Budget]) -> Mapping[int, Nearest]:
    """Existing Myses only; a deleted one cannot exhaust a budget."""
    name = Mysis.objects.filter(pk=OuterRef("subject")).values("name")
    share = Greatest(
        100 * F("tokens") / NullIf(F("budget__tokens"), 0),
        100 * F("cost") / NullIf(F("budget__cost"), Decimal(0)),
    )
    rows = (
        BudgetSpend.objects.filter(budget__in=each)
        .filter(Q(budget__period=Budget.Period.TOTAL) | Q(day__gte=today()))
        .annotate(name=Subquery(name), share=share)
        .filter(name__isnull=False)
        .order_by("budget", F("share").desc(nulls_last=True), "subject")
        .distinct("budget")
    )
    found = rows.values_list("budget", "name", "tokens", "cost")
    return {pk: Nearest(name, Amount(t, c)) for pk, name, t, c in found}


def _limit(one: BudgetStatus, nearest: Nearest = NOBODY) -> Limit:
    budget = one.budget
    return Limit(
        name=budget.name,
        whom=budget.target or budget.get_scope_display(),
        who=nearest.name,
        daily=budget.period == Budget.Period.DAY,
        each=budget.scope == Budget.Scope.EACH,
        link=reverse("admin:agents_budget_change", args=[budget.pk]),
        tokens=budget.tokens,
        cost=budget.cost,
        spent=nearest.spent if one.spent is None else one.spent,
    )
