"""Hard budgets: a call is paid for, by estimate, before it is made.

One statement checks a budget's counter and adds the estimate, so two workers never both
take what is left. The answer replaces the estimate, which stays where nobody will ever
know: the worker died, or the call was cut off, and may have been billed.

So a counter passes its limit only by what calls under way use beyond their estimate:
answers that ``max_tokens`` does not bound, and the error of the count.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import NamedTuple

from django.db.models import F, QuerySet
from django.utils import timezone

from agents import db, events, statements
from agents.llm.endpoints import list_provider_candidates, resolve
from agents.llm.model_types import ModelError, is_priced
from agents.models import Budget, BudgetSpend, Mysis, Usage
from agents.usage import add_up, add_up_by, get_day, today

# The day that stands at the counters of budgets that last for ever.
ALWAYS = date(1970, 1, 1)

SPREAD_SECONDS = 60

UNPRICED = (
    "No price is known of {models}: those calls count as $0, and a limit of money does "
    "not stop them. Give the budget a limit of tokens too."
)

# Gives a row where the amount fits. Counters of a day begin anew with the first call
# of the next; a worker whose clock is behind counts on.
TAKE_BUDGET = """
INSERT INTO agents_budgetspend AS kept (budget_id, subject, day, tokens, cost)
VALUES (%(budget)s, %(subject)s, %(day)s, %(tokens)s, %(cost)s)
ON CONFLICT (budget_id, subject) DO UPDATE SET
  tokens = EXCLUDED.tokens + CASE WHEN kept.day >= EXCLUDED.day THEN kept.tokens ELSE 0 END,
  cost = EXCLUDED.cost + CASE WHEN kept.day >= EXCLUDED.day THEN kept.cost ELSE 0 END,
  day = greatest(kept.day, EXCLUDED.day)
WHERE kept.day < EXCLUDED.day OR (
  (%(most_tokens)s::bigint IS NULL OR (
    kept.tokens < %(most_tokens)s AND kept.tokens + EXCLUDED.tokens <= %(most_tokens)s))
  AND (%(most_cost)s::numeric IS NULL OR (
    kept.cost < %(most_cost)s AND kept.cost + EXCLUDED.cost <= %(most_cost)s))
)
RETURNING id
"""

# Models of which this process has looked whether a price is known.
_checked_models: set[str] = set()


class BudgetSpentError(Exception):
    """A call that a budget does not allow; says which, and what to do.

    ``why`` says which alone, for who does not go on by itself.
    """

    def __init__(self, why: str, then: str) -> None:
        super().__init__(f"{why} {then}")
        self.why = why


class Amount(NamedTuple):
    """Tokens, and US dollars."""

    tokens: int = 0
    cost: Decimal = Decimal(0)


NOTHING = Amount()


@dataclass(frozen=True, slots=True)
class Taken:
    """What one budget lent a call that is under way, from which row of a count.

    A count that is begun anew has new rows, so that no old loan is paid back to it.
    """

    spend_id: int
    day: date
    amount: Amount


@dataclass(frozen=True, slots=True)
class BudgetStatus:
    """A budget and what is spent of it; None where it is one of each Mysis."""

    budget: Budget
    spent: Amount | None


def find_budgets(mysis: Mysis) -> list[Budget]:
    """The budgets that the calls of a Mysis count in, always in the same order."""
    values = {"mysis": mysis.pk, "providers": list_provider_candidates(mysis.model)}
    (found,) = db.fetch_row(statements.BUDGETS_OF_MYSIS, values, prepare=True)
    return parse_budgets(found)


def parse_budgets(text: str) -> list[Budget]:
    """Budgets out of the JSON that a statement gives of their rows."""
    return [Budget(**row) for row in json.loads(text, parse_float=Decimal)]


def take_budgets(
    mysis: Mysis,
    tokens: int,
    price: Callable[[], Decimal],
    found: Sequence[Budget],
    *,
    report: bool = True,
) -> tuple[Taken, ...]:
    """Pay for a call by its estimate, in the caller's transaction.

    Raises BudgetSpentError; the transaction must be rolled back then. ``price`` is
    asked only where a budget is one of money. ``found`` are the budgets of the Mysis,
    which is told of a missing price, unless there is none to ``report``.
    """
    dear = any(budget.cost is not None for budget in found)
    amount = Amount(tokens, price() if dear else Decimal(0))
    taken = tuple(_take(budget, mysis, amount) for budget in found)
    if report and dear and tokens and not amount.cost:
        _report_unpriced_once(mysis)
    return taken


def _take(budget: Budget, mysis: Mysis, amount: Amount) -> Taken:
    subject, day = _subject(budget, mysis.pk), _day(budget)
    values = {
        "budget": budget.pk,
        "subject": subject,
        "day": day,
        "tokens": amount.tokens,
        "cost": amount.cost,
        "most_tokens": budget.tokens,
        "most_cost": budget.cost,
    }
    if _fits(budget, NOTHING, amount) and (
        found := db.fetch_row(TAKE_BUDGET, values, prepare=True)
    ):
        return Taken(found[0], day, amount)
    row = BudgetSpend.objects.filter(budget=budget, subject=subject).first()
    raise BudgetSpentError(*_describe_refusal(budget, _current(budget, row), amount))


def _report_unpriced_once(mysis: Mysis) -> None:
    model = mysis.model
    if model not in _checked_models and find_unpriced([model]):
        events.append_error(mysis.pk, UNPRICED.format(models=model), code="unpriced")
    _checked_models.add(model)


def find_unpriced(models: Iterable[str]) -> list[str]:
    """Those of these models' names whose calls count as $0: nobody knows a price."""
    found = []
    for model in models:
        # One that cannot be called at all costs nothing.
        with suppress(ModelError):
            if not is_priced(resolve(model)):
                found.append(model)
    return found


def find_price_warnings(budgets: Sequence[Budget]) -> dict[int, str]:
    """By number, what these limits of money miss: models without a known price."""
    dear = [budget for budget in budgets if budget.cost is not None]
    if not dear:
        return {}
    flown = Mysis.objects.order_by("model").values_list("model", flat=True).distinct()
    blind = find_unpriced(flown)
    missed = {budget.pk: _select_models(budget, blind) for budget in dear}
    return {
        pk: UNPRICED.format(models=", ".join(models))
        for pk, models in missed.items()
        if models
    }


def _select_models(budget: Budget, models: Sequence[str]) -> list[str]:
    """Those of these models that fly under a budget, as `find_budgets` has it."""
    if not models:
        return []
    scope = Budget.Scope
    if budget.scope == scope.PROVIDER:
        return [
            model for model in models if budget.label in list_provider_candidates(model)
        ]
    under = Mysis.objects.filter(model__in=models)
    if budget.scope == scope.MYSIS:
        under = under.filter(budgets=budget)
    elif budget.scope == scope.GROUP:
        under = under.filter(group=budget.label)
    elif budget.scope == scope.POLICY:
        under = Mysis.select_users(budget.policy_id).filter(model__in=models)
    return list(under.order_by("model").values_list("model", flat=True).distinct())


def restart_count(budget: Budget) -> None:
    """Count anew what is spent of a stored budget, by what was used on whole days.

    One of a day counts today, another all since the day it was made, both in UTC.
    Calls that are under way were lent nothing by it, so these do not count.
    """
    BudgetSpend.objects.filter(budget=budget).delete()
    per_mysis = budget.scope == Budget.Scope.EACH
    rows = _select_usage(budget)
    found = add_up_by(rows, "mysis_id") if per_mysis else [add_up(rows)]
    BudgetSpend.objects.bulk_create(
        BudgetSpend(
            budget=budget,
            subject=one["mysis_id"] if per_mysis else 0,
            day=_day(budget),
            tokens=one["input_tokens"] + one["output_tokens"],
            cost=one["cost"],
        )
        for one in found
    )


def _select_usage(budget: Budget) -> QuerySet[Usage]:
    """The calls that a budget counts; for a group, those of who is in it now."""
    whole = budget.period == Budget.Period.TOTAL
    first = budget.created_at.astimezone(UTC).date() if whole else today()
    rows = Usage.objects.filter(day__gte=first)
    scope = Budget.Scope
    if budget.scope == scope.MYSIS:
        return rows.filter(mysis_id=budget.mysis_id or 0)
    if budget.scope == scope.GROUP:
        members = Mysis.objects.filter(group=budget.label)
        return rows.filter(mysis_id__in=members.values("pk"))
    if budget.scope == scope.POLICY and budget.policy:
        return rows.filter(policy=budget.policy.name)
    if budget.scope == scope.PROVIDER:
        models = rows.order_by().values_list("model", flat=True).distinct()
        return rows.filter(
            model__in=[
                model
                for model in models
                if budget.label in list_provider_candidates(model)
            ]
        )
    return rows


def settle_budgets(taken: Sequence[Taken], used: Amount) -> None:
    """Replace the estimate of a call by what it used."""
    for one in taken:
        BudgetSpend.objects.filter(pk=one.spend_id, day=one.day).update(
            tokens=F("tokens") + used.tokens - one.amount.tokens,
            cost=F("cost") + used.cost - one.amount.cost,
        )


def explain_refusal(mysis: Mysis, found: Sequence[Budget]) -> str:
    """Why the next call would be refused by these budgets whatever it costs, or ""."""
    for one in read_budget_statuses(found, mysis.pk):
        spent = one.spent or NOTHING
        if not _fits(one.budget, spent, NOTHING):
            return " ".join(_describe_refusal(one.budget, spent, NOTHING))
    return ""


def read_mysis_statuses(mysis: Mysis) -> list[BudgetStatus]:
    """What is spent of the budgets that a Mysis counts in."""
    return read_budget_statuses(find_budgets(mysis), mysis.pk)


def read_budget_statuses(
    budgets: Sequence[Budget], mysis_id: int = 0
) -> list[BudgetStatus]:
    """What is spent of these; of one of each Mysis what ``mysis_id`` spent."""
    rows = BudgetSpend.objects.filter(budget__in=budgets, subject__in=(0, mysis_id))
    spends = {(row.budget_id, row.subject): row for row in rows}
    return [
        BudgetStatus(
            budget,
            None
            if budget.scope == Budget.Scope.EACH and not mysis_id
            else _current(budget, spends.get((budget.pk, _subject(budget, mysis_id)))),
        )
        for budget in budgets
    ]


def find_pause(mysis_id: int) -> timedelta:
    """Until a Mysis that is held tries again: after 00:00 UTC, not all at once.

    By the clock that also tells which day is charged. The queue counts from the start of
    its transaction: less than a second later would be yesterday.
    """
    now = timezone.now()
    midnight = datetime.combine(get_day(now) + timedelta(days=1), time(), UTC)
    return midnight - now + timedelta(seconds=1 + mysis_id % SPREAD_SECONDS)


def _subject(budget: Budget, mysis_id: int) -> int:
    return mysis_id if budget.scope == Budget.Scope.EACH else 0


def _day(budget: Budget) -> date:
    return today() if budget.period == Budget.Period.DAY else ALWAYS


def _current(budget: Budget, row: BudgetSpend | None) -> Amount:
    if row is None or row.day < _day(budget):
        return NOTHING
    return Amount(row.tokens, row.cost)


def _fits(budget: Budget, spent: Amount, more: Amount) -> bool:
    return all(
        limit is None or (used < limit and used + extra <= limit)
        for limit, used, extra in (
            (budget.tokens, spent.tokens, more.tokens),
            (budget.cost, spent.cost, more.cost),
        )
    )


def _describe_refusal(budget: Budget, spent: Amount, more: Amount) -> tuple[str, str]:
    """Which budget has no room and why, and when it has again."""
    parts = []
    if budget.tokens is not None:
        parts.append(f"{spent.tokens:,} of {budget.tokens:,} tokens")
    if budget.cost is not None:
        parts.append(f"${spent.cost:,.4f} of ${budget.cost:,.4f}")
    when = "altogether"
    then = "It goes on by itself when the budget is raised."
    if budget.period == Budget.Period.DAY:
        when = "today"
        then = (
            "It goes on by itself at 00:00 UTC, or at once when the budget is raised."
        )
    needs = (
        f", and the next call needs about {more.tokens:,} tokens" if more.tokens else ""
    )
    who = budget.get_scope_display().lower()
    why = (
        f"The budget {budget.name} ({who}) has no room for a call: "
        f"{' and '.join(parts)} are spent {when}{needs}."
    )
    return why, then
