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
    _look_again(_held())
    return budget


@transaction.atomic
def delete_budget(*, budget: Budget) -> None:
    """Remove a budget, and what was counted in it."""
    # The rows of Myses before the counters, as a call that is paid for.
    held = _held()
    budget.delete()
    _look_again(held)


def _held() -> list[Mysis]:
    """The locked rows of those that wait for a budget."""
    held = Mysis.objects.select_for_update(of=("self",)).exclude(hold="")
    return list(held.filter(state=Mysis.State.RUNNING).order_by("pk"))


def _look_again(held: list[Mysis]) -> None:
    """Give those that are held a turn now: they are held anew where they must be."""
    scheduling.schedule_all(held, trigger="budget")
