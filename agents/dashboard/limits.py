"""Budgets as the pages show them: what is spent, what is left, and how near the end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from django.db.models import Max
from django.urls import reverse

from agents import budgets
from agents.budgets import Amount, Standing
from agents.models import Budget, BudgetSpend
from agents.usage import today

# Per cent of a budget from which on it is near its end.
NEAR = 80
SHOWN = 6


@dataclass(frozen=True, slots=True)
class Limit:
    """One budget. Of one of each Mysis ``spent`` is that of who spent most."""

    name: str
    whom: str
    daily: bool
    each: bool
    link: str
    tokens: int | None
    cost: Decimal | None
    spent: Amount

    @property
    def percent(self) -> int:
        """How much of it is spent, by what is nearest its end; rounded down."""
        shares = [
            int(100 * used / limit) if limit else 100
            for limit, used in (
                (self.tokens, self.spent.tokens),
                (self.cost, self.spent.cost),
            )
            if limit is not None
        ]
        return max(0, *shares)

    @property
    def bar(self) -> int:
        """What of a bar of a hundred is full."""
        return min(100, self.percent)

    @property
    def level(self) -> str:
        """fine, near or spent."""
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


def of_fleet() -> tuple[Limit, ...]:
    """All budgets, the nearest to its end first; two queries, or three."""
    rows = list(Budget.objects.select_related("mysis", "policy").order_by("name"))
    found = [_limit(one) for one in _with_most(budgets.all_standings(rows))]
    return tuple(sorted(found, key=lambda one: -one.percent))


def limits_of(found: Iterable[Standing]) -> tuple[Limit, ...]:
    """Budgets with what is spent of them."""
    return tuple(map(_limit, found))


def _with_most(found: Sequence[Standing]) -> Iterable[Standing]:
    """Budgets of each Mysis with the sums of who spent most."""
    each = [one.budget for one in found if one.spent is None]
    most = _most(each) if each else {}
    for one in found:
        if one.spent is None:
            yield Standing(one.budget, most.get(one.budget.pk, budgets.NOTHING))
        else:
            yield one


def _most(each: Sequence[Budget]) -> dict[int, Amount]:
    found: dict[int, Amount] = {}
    for period in Budget.Period:
        chosen = [budget for budget in each if budget.period == period]
        rows = BudgetSpend.objects.filter(budget__in=chosen)
        if period == Budget.Period.DAY:
            rows = rows.filter(day__gte=today())
        sums = rows.values_list("budget").annotate(t=Max("tokens"), c=Max("cost"))
        found |= {pk: Amount(tokens, cost) for pk, tokens, cost in sums.order_by()}
    return found


def _limit(one: Standing) -> Limit:
    budget = one.budget
    return Limit(
        name=budget.name,
        whom=budget.target or budget.get_scope_display(),
        daily=budget.period == Budget.Period.DAY,
        each=budget.scope == Budget.Scope.EACH,
        link=reverse("admin:agents_budget_change", args=[budget.pk]),
        tokens=budget.tokens,
        cost=budget.cost,
        spent=one.spent or budgets.NOTHING,
    )
