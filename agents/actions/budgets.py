"""Budgets: made, changed, removed; whom they hold looks again at once."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.db import transaction

from agents import scheduling
from agents.models import Budget, Mysis

from .errors import ActionError


@transaction.atomic
def save_budget(*, budget: Budget) -> Budget:
    """Make or change a budget; it counts from the next call on.

    What was spent stays counted. Raises ActionError 422 for one that limits nothing
    or names nobody.
    """
    try:
        budget.full_clean()
    except ValidationError as error:
        field, messages = next(iter(error.message_dict.items()))
        raise ActionError(
            f"{field}: {messages[0]}", code="invalid", status=422
        ) from error
    budget.save()
    _look_again()
    return budget


@transaction.atomic
def delete_budget(*, budget: Budget) -> None:
    """Remove a budget, and what was counted in it."""
    budget.delete()
    _look_again()


def _look_again() -> None:
    """Give every Mysis that is held a turn now: it is held anew where it must be."""
    held = Mysis.objects.select_for_update(of=("self",)).exclude(hold="")
    for mysis in held.filter(state=Mysis.State.RUNNING).order_by("pk"):
        scheduling.schedule(mysis, trigger="budget")
