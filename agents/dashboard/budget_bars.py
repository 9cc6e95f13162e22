"""Budgets as the pages show them: what is spent, what is left, and how near the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from django.db.models import F, OuterRef, Q, Subquery
from django.db.models.functions import Greatest, NullIf

from agents import budgets
from agents.budgets import NOTHING, Amount
from agents.models import Budget, BudgetSpend, Mysis
from agents.usage import today

# Per cent of a budget from which on it is near its end.
NEAR = 80
# Budgets on the front page.
SHOWN = 6
ALL = Decimal(100)


@dataclass(frozen=True, slots=True)
class Limit:
    """One budget. Of one of each Mysis ``spent`` is that of ``who``, the nearest."""

    budget: Budget
    spent: Amount
    who: str = ""

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
        cost, tokens = self.budget.cost, self.budget.tokens
        if cost is not None:
            found["cost"] = 100 * self.spent.cost / cost if cost else ALL
        if tokens is not None:
            used = Decimal(100 * self.spent.tokens)
            found["tokens"] = used / tokens if tokens else ALL
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
            max(0, (self.budget.tokens or 0) - self.spent.tokens),
            max(Decimal(0), (self.budget.cost or Decimal(0)) - self.spent.cost),
        )


def load_fleet_limits() -> tuple[Limit, ...]:
    """All budgets, the nearest to its end first; two queries, or three."""
    rows = list(Budget.objects.select_related("mysis", "policy").order_by("name"))
    each = [row for row in rows if row.scope == Budget.Scope.EACH]
    who = _load_nearest(each) if each else {}
    found = [
        Limit(one.budget, *who.get(one.budget.pk, (NOTHING, "")))
        if one.spent is None
        else Limit(one.budget, one.spent)
        for one in budgets.read_budget_statuses(rows)
    ]
    return tuple(sorted(found, key=lambda one: -one.percent))


def load_limits(mysis: Mysis) -> list[Limit]:
    """The budgets that the calls of a Mysis count in."""
    found = budgets.read_mysis_statuses(mysis)
    return [Limit(one.budget, one.spent or NOTHING) for one in found]


def _load_nearest(each: Sequence[Budget]) -> Mapping[int, tuple[Amount, str]]:
    # Of existing Myses only; a deleted one cannot exhaust a budget.
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
    return {pk: (Amount(t, c), name) for pk, name, t, c in found}
