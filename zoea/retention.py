"""What `manage.py prune` removes: of the fleet, and of the doors."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from django.utils import timezone

from agents import retention
from agents.retention import Step

from . import idempotency


def steps(before: datetime) -> Iterator[Step]:
    """What was kept from before a moment; of answers kept for repetitions all the old.

    Those are promised for a day, and of no use after that however much else is kept.
    """
    yield from retention.steps(before)
    answers = idempotency.past(timezone.now())
    yield Step("kept answers", answers.count(), retention.removal(answers))
