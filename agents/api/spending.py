"""/budgets: hard limits of tokens and money. /usage: tokens, cost and latency added up."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal

from django.db.models import QuerySet
from django.http import HttpRequest
from ninja import Query, Router, Schema, Status
from pydantic import AliasPath, BeforeValidator, Field

from agents import actions, usage
from agents.api.turns import Tokens, WithTokens, read_changes, read_path
from agents.budgets import find_price_warnings, read_budget_statuses
from agents.models import Budget, Mysis, Usage
from memory.api.parameters import (
    DEFAULT_LIMIT,
    FROM_JSON,
    Body,
    Limit,
    Name,
    Page,
    Window,
    build_example,
    build_page,
    cut_page,
    find_row,
    get_row,
)
from memory.handles import MAX_ID, find_owner, parse_id
from memory.models import ContextPolicy
from memory.problems import make_invalid

budgets_router = Router(tags=["budgets"])

Scope = Literal["fleet", "each", "mysis", "group", "policy", "provider"]
Period = Literal["day", "total"]
BudgetReference = Annotated[
    str, Field(description="Number or name.", examples=["a dollar a day"])
]

usage_router = Router(tags=["usage"])

DAYS = 30
COLUMNS = {"mysis": "mysis_id", "policy": "policy", "model": "model", "day": "day"}


class Amounts(Schema):
    """Tokens of requests and answers, and US dollars."""

    tokens: int = Field(examples=[120000])
    cost: float = Field(examples=[0.21])


class BudgetOut(Schema):
    """A limit; null for no limit of tokens, or of cost.

    ``target`` names the Mysis, group, policy or provider. ``spent`` counts calls under
    way by their estimate; it is null for a budget of each Mysis, except at a Mysis.
    """

    id: int = Field(validation_alias=AliasPath("budget", "pk"))
    name: str = read_path("budget", "name", example="a dollar a day")
    scope: Scope = read_path("budget", "scope", example="fleet")
    target: str | None = read_path("budget", "target", example=None)
    period: Period = read_path("budget", "period", example="day")
    tokens: int | None = read_path("budget", "tokens", example=None)
    cost: float | None = read_path("budget", "cost", example=1.0)
    spent: Amounts | None


class BudgetRead(BudgetOut):
    """A limit with what it misses: models without a known price count as $0."""

    warning: str | None = Field(examples=[None])


class BudgetChange(Body):
    """What may change; null takes a limit away. At least one must stay."""

    model_config = build_example(cost=2.5)

    name: Name | None = None
    scope: Scope | None = None
    target: Annotated[str, Field(max_length=100)] | None = None
    period: Period | None = None
    tokens: Annotated[int, Field(ge=0, le=MAX_ID), FROM_JSON] | None = None
    cost: Annotated[float, Field(ge=0, le=10_000_000)] | None = None


class BudgetIn(BudgetChange):
    """A new budget."""

    model_config = build_example(
        name="a dollar a day", scope="fleet", period="day", cost=1.0
    )

    name: Name
    scope: Scope


@budgets_router.get("/budgets", response=Page[BudgetRead])
def list_budgets(request: HttpRequest, window: Query[Window]) -> dict[str, Any]:
    """All budgets, with what is spent of them."""
    page = build_page(select_budgets(), window)
    return {"items": _describe_budgets(page["items"]), "next": page["next"]}


@budgets_router.post("/budgets", response={201: BudgetRead})
def create_budget(request: HttpRequest, body: BudgetIn) -> Status[dict[str, Any]]:
    """Make a budget; it stops the next call that it has no room for."""
    return Status(201, _apply_change(Budget(), body))


@budgets_router.get("/budgets/{reference}", response=BudgetRead)
def read_budget(request: HttpRequest, reference: BudgetReference) -> dict[str, Any]:
    """One budget, by number or name."""
    return _describe_budgets([_get_budget(reference)])[0]


@budgets_router.patch("/budgets/{reference}", response=BudgetRead)
def update_budget(
    request: HttpRequest, reference: BudgetReference, body: BudgetChange
) -> dict[str, Any]:
    """Change what is given; Myses that are held look again at once."""
    return _apply_change(_get_budget(reference), body)


@budgets_router.delete("/budgets/{reference}", response={204: None})
def delete_budget(request: HttpRequest, reference: BudgetReference) -> Status[None]:
    """Remove a budget; nobody is held by it any more."""
    actions.delete_budget(budget=_get_budget(reference))
    return Status(204, None)


def select_budgets() -> QuerySet[Budget]:
    """All budgets, with the rows that they name."""
    return Budget.objects.select_related("mysis", "policy").order_by("pk")


def _describe_budgets(budgets: Sequence[Budget]) -> list[dict[str, Any]]:
    missed = find_price_warnings(budgets)
    return [
        {
            "budget": each.budget,
            "spent": each.spent,
            "warning": missed.get(each.budget.pk),
        }
        for each in read_budget_statuses(budgets)
    ]


def _get_budget(reference: str) -> Budget:
    return get_row(select_budgets(), reference, "budget")


def _apply_change(budget: Budget, body: BudgetChange) -> dict[str, Any]:
    values = read_changes(body, "target", "tokens", "cost")
    for field in values.keys() - {"target", "cost"}:
        setattr(budget, field, values[field])
    if "cost" in values:
        cost = values["cost"]
        budget.cost = None if cost is None else round(Decimal(str(cost)), 6)
    if "target" in values or "scope" in values:
        _set_target(budget, values.get("target"))
    return _describe_budgets([actions.save_budget(budget=budget)])[0]


def _set_target(budget: Budget, target: str | None) -> None:
    """Set the target by its name; raises a 422 Problem for an unknown one."""
    budget.mysis = budget.policy = None
    budget.label = ""
    field = Budget.TARGETS.get(budget.scope)
    if field is None and target:
        raise make_invalid("target", f"leave it out: the scope is {budget.scope}.")
    if field is None:
        return
    found: Any = target
    if target and field == "mysis":
        found = find_owner(target)
    elif target and field == "policy":
        found = find_row(ContextPolicy.objects.all(), target)
    if not found:
        raise make_invalid("target", f"name a {budget.scope} that there is.")
    setattr(budget, field, found)


class UsageOut(WithTokens):
    """What calls came to.

    ``calls`` drive turns, ``summaries`` stand beside them, ``errors`` are those of
    both that brought no answer. Cost in US dollars, latency the sum over all.
    """

    calls: int = Field(examples=[120])
    summaries: int = Field(examples=[2])
    errors: int = Field(examples=[0])
    tokens: Tokens
    cost: float = Field(examples=[0.21])
    latency_ms: int = Field(examples=[624000])


class UsageLine(UsageOut):
    """The usage of one ``key``: a name of a Mysis, policy or model, or a day (UTC).

    With by=mysis, ``mysis`` is its number; the key of a deleted one is null.
    """

    key: str | None = Field(examples=["2026-02-05"])
    mysis: int | None = None


class UsagePage(Page[UsageLine]):
    """One page, and beside it the sum over everything since that day."""

    since: date
    total: UsageOut


def _read_day(value: Any) -> Any:
    """A day from its text: pydantic would also take seconds since 1970."""
    if not isinstance(value, str):
        return value
    try:
        return datetime.strptime(value, "%Y-%m-%d").date()
    except ValueError:
        raise ValueError("give a day such as 2026-02-05") from None


class Wanted(Schema):
    """How to add up, and from which day on."""

    by: Literal["mysis", "policy", "model", "day"] = "day"
    since: Annotated[
        date | None,
        BeforeValidator(_read_day),
        Field(
            description="A day (UTC); without it the last 30.", examples=["2026-02-05"]
        ),
    ] = None
    cursor: Annotated[
        str | None,
        Field(
            max_length=300, description="`next` of the page before.", examples=["Ada"]
        ),
    ] = None
    limit: Limit = DEFAULT_LIMIT


@usage_router.get("/usage", response=UsagePage)
def read_usage(request: HttpRequest, wanted: Query[Wanted]) -> dict[str, Any]:
    """Totals by Mysis, policy, model or day; of the whole fleet, deleted ones too."""
    day = wanted.since or usage.today() - timedelta(days=DAYS - 1)
    rows = Usage.objects.filter(day__gte=day)
    column = COLUMNS[wanted.by]
    groups = usage.add_up_by(_filter_after(rows, column, wanted.cursor), column)
    found = list(groups[: wanted.limit + 1])
    page = cut_page(found, wanted.limit, [group[column] for group in found])
    return {
        "items": _with_keys(page["items"], column),
        "next": page["next"],
        "since": day,
        "total": usage.add_up(rows),
    }


def _with_keys(groups: list[dict[str, Any]], column: str) -> list[dict[str, Any]]:
    if column != "mysis_id":
        return [group | {"key": str(group[column])} for group in groups]
    ids = [group[column] for group in groups]
    names = dict(Mysis.objects.filter(pk__in=ids).values_list("pk", "name"))
    return [
        group | {"key": names.get(group[column]), "mysis": group[column]}
        for group in groups
    ]


def _filter_after(
    rows: QuerySet[Usage], column: str, cursor: str | None
) -> QuerySet[Usage]:
    if cursor is None:
        return rows
    value: Any = cursor.replace("\x00", "")
    if column == "mysis_id":
        value = parse_id(cursor)
    elif column == "day":
        try:
            value = date.fromisoformat(cursor)
        except ValueError:
            value = None
    if value is None:
        raise make_invalid("cursor", "give the `next` of the page before.")
    return rows.filter(**{f"{column}__gt": value})
