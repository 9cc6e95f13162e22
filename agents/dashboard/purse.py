"""What the fleet has and what it costs today."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db.models import Sum

from agents.models import Account, Usage
from agents.usage import today

from . import game
from .standing import credits_in

STATUS = "get_status"


@dataclass(frozen=True, slots=True)
class Purse:
    """The credits of all accounts that are flown, as far as they are known.

    ``known`` of the Myses tell theirs; ``oldest`` is when the oldest of these answers
    was made. ``today`` are US dollars since 00:00 UTC.
    """

    credits: int = 0
    known: int = 0
    oldest: datetime | None = None
    today: Decimal = Decimal(0)


def look() -> Purse:
    """Read it; three queries for any number of Myses."""
    flown = Account.objects.exclude(active_mysis=None)
    names = list(flown.values_list("username", flat=True))
    answers = [
        one.snapshot for held in game.held(names, STATUS).values() for one in held
    ]
    told = [(credits_in(one), one.captured_at) for one in answers if not one.args]
    sums = [(amount, at) for amount, at in told if amount is not None]
    cost = Usage.objects.filter(day=today()).aggregate(cost=Sum("cost"))["cost"]
    return Purse(
        credits=sum(amount for amount, _ in sums),
        known=len(sums),
        oldest=min((at for _, at in sums), default=None),
        today=cost or Decimal(0),
    )
