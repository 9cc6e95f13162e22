"""A context that a provider had no room for: what the view of the next try may hold.

A limit that the refusal names is true of the model, so every Mysis on it keeps to it
from then on. Where none is named, or our own count was wrong, a smaller view is a
guess from one request: it holds for this Mysis alone, once it has proved right.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.utils import timezone

from agents.llm.overflow import limit_of
from agents.llm.types import Endpoint, ModelError
from agents.llm.windows import LIMITED_FOR, learn
from agents.models import Mysis

from .records import Begun

#: The part of a refused context that is tried next.
SMALLER = 0.75
KEPT_FOR: timedelta = LIMITED_FOR


@dataclass(frozen=True, slots=True)
class Fit:
    """What a view may have, in tokens by our count, after which refusal.

    ``guess`` says that the refusal itself does not make later views smaller.
    """

    tokens: int
    refusal: ModelError
    guess: bool


def fit(endpoint: Endpoint, refusal: ModelError, estimated: int) -> Fit:
    """The view of the next try: smaller than the refused one in any case."""
    smaller = int(estimated * SMALLER)
    limit = limit_of(refusal)
    if limit is None:
        return Fit(smaller, refusal, guess=True)
    learn(endpoint, limit)
    return Fit(min(limit, smaller), refusal, guess=limit >= estimated)


def remember(begun: Begun, found: Fit) -> None:
    """Keep a guess that was answered: later turns begin with it."""
    Mysis.objects.filter(pk=begun.mysis_id).update(
        view_tokens=found.tokens,
        view_model=begun.model,
        view_until=timezone.now() + KEPT_FOR,
    )
