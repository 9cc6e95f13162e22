"""GET, POST and PATCH /policies: named ways of assembling contexts."""

from __future__ import annotations

from typing import Annotated, Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest
from ninja import Query, Router, Schema, Status
from pydantic import Field

from memory.context import registry
from memory.models import ContextPolicy
from memory.owners import number_of
from memory.problems import Problem, invalid, missing

from .fields import Body, Name, Whole, example
from .pages import Page, Rows, Window, page_of

router = Router(tags=["policies"])

PolicyReference = Annotated[
    str, Field(description="Number or name.", examples=["tight"])
]


class PolicyBudgetOut(Schema):
    """A model's window and what of it is kept free, in tokens."""

    tokens: int = Field(examples=[16000])
    reserve: int = Field(examples=[2000])


class PolicyOut(Schema):
    """A named context policy."""

    name: str = Field(examples=["tight"])
    strategy: str = Field(examples=["snapshot-window"])
    options: dict[str, Any] = Field(examples=[{"window": 12}])
    budget: PolicyBudgetOut

    @staticmethod
    def resolve_budget(row: ContextPolicy) -> dict[str, int]:
        """The two columns as one object."""
        return {"tokens": row.budget_tokens, "reserve": row.budget_reserve}


class PolicyBudgetIn(Body):
    """As PolicyBudgetOut; what is left out stays as it is."""

    tokens: Whole | None = None
    reserve: Whole | None = None


class PolicyChange(Body):
    """What may change of a policy."""

    model_config = example(budget={"tokens": 32000})

    name: Name | None = None
    strategy: str | None = None
    options: dict[str, Any] | None = None
    budget: PolicyBudgetIn | None = None


class PolicyIn(PolicyChange):
    """A new policy."""

    model_config = example(
        name="tight",
        strategy="snapshot-window",
        options={"window": 12},
        budget={"tokens": 16000, "reserve": 2000},
    )

    name: Name


@router.get("/policies", response=Page[PolicyOut])
def list_policies(request: HttpRequest, window: Query[Window]) -> Rows:
    """All context policies."""
    return page_of(ContextPolicy.objects.all(), window)


@router.post("/policies", response={201: PolicyOut})
def create_policy(request: HttpRequest, body: PolicyIn) -> Status[ContextPolicy]:
    """Make a policy; its strategy and options are checked now, not in a turn."""
    return Status(201, change(ContextPolicy(), body))


@router.get("/policies/{reference}", response=PolicyOut)
def read_policy(request: HttpRequest, reference: PolicyReference) -> ContextPolicy:
    """One policy, by name or number."""
    return policy_of(reference)


@router.patch("/policies/{reference}", response=PolicyOut)
def update_policy(
    request: HttpRequest, reference: PolicyReference, body: PolicyChange
) -> ContextPolicy:
    """Change what is given; the next call of every Mysis with it is made so."""
    return change(policy_of(reference), body)


def policy_of(reference: str) -> ContextPolicy:
    """The policy of a name or number; raises a 404 Problem."""
    found = find_policy(reference)
    if found is None:
        raise missing(f"There is no policy {reference[:100]!r}.")
    return found


def find_policy(reference: str) -> ContextPolicy | None:
    """The policy of a name, or else of a number."""
    if "\x00" in reference:
        return None
    named = ContextPolicy.objects.filter(name=reference).first()
    number = number_of(reference)
    if named is not None or number is None:
        return named
    return ContextPolicy.objects.filter(pk=number).first()


@transaction.atomic
def change(policy: ContextPolicy, body: PolicyChange) -> ContextPolicy:
    """Apply a body to a policy and store it; raises a 422 Problem."""
    for field in ("name", "strategy", "options"):
        value = getattr(body, field)
        if value is not None:
            setattr(policy, field, value)
    if body.budget is not None:
        _set_budget(policy, body.budget)
    try:
        registry.validate_options(policy.strategy, policy.options)
    except (ValueError, TypeError) as error:
        raise Problem(422, "invalid", str(error)) from error
    try:
        policy.full_clean()
    except ValidationError as error:
        raise refusal(error) from error
    policy.save()
    return policy


def _set_budget(policy: ContextPolicy, budget: PolicyBudgetIn) -> None:
    if budget.tokens is not None:
        policy.budget_tokens = budget.tokens
    if budget.reserve is not None:
        policy.budget_reserve = budget.reserve
    if not 0 <= policy.budget_reserve < policy.budget_tokens <= 2**31 - 1:
        raise invalid(
            "budget", "tokens must be from 1 to 2147483647, and reserve below tokens."
        )


def refusal(error: ValidationError) -> Problem:
    """What a model's own checks say, as one sentence with its field."""
    field, texts = next(iter(error.message_dict.items()))
    return invalid("body" if field == "__all__" else field, texts[0])
