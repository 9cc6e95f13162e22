"""What a summary costs, what it saves of the calls after it, and when that pays it back.

A summary that is made only to save must save more, until the budget would ask for one
anyway, than it costs: its own request and answer, and what a provider's cache no longer
knows of the view after it. One that the budget needs is made whatever it costs, since a
context that fits stands above its price.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenPrices:
    """US dollars for one token: read anew, read from the provider's cache, written."""

    input: float
    cached: float
    output: float

    def price_input(self, share: float) -> float:
        """One token of a request of which that share comes from the cache."""
        return self.cached * share + self.input * (1 - share)


@dataclass(frozen=True, slots=True)
class SummaryPlan:
    """A summary as it would be, in tokens.

    ``request`` are those that the view has too, ``asked`` the rest of it, ``answer`` the
    most of the summary. ``kept`` stand behind it in the view, and ``saved`` are gone.
    ``room`` is what is left until the budget needs one, ``growth`` what a call adds.
    """

    request: int
    asked: int
    answer: int
    kept: int
    saved: int
    room: int
    growth: float


@dataclass(frozen=True, slots=True)
class Payback:
    """What a summary saves of each call and what it costs, in US dollars.

    ``tokens`` are saved of each call; in so many calls, ``lasts``, the budget would ask
    for one anyway. ``needed`` says that it does so now.
    """

    tokens: int
    saves: float
    costs: float
    lasts: int
    needed: bool = False

    @property
    def calls(self) -> int | None:
        """After how many calls it has paid back; None where it saves nothing."""
        return math.ceil(self.costs / self.saves) if self.saves > 0 else None

    @property
    def worth_it(self) -> bool:
        """Whether to make it: it pays back in time, or the budget needs it."""
        return self.needed or (self.calls is not None and self.calls <= self.lasts)

    def describe(self) -> dict[str, float | bool | None]:
        """The figures as programs see them; `calls` null is never."""
        return {
            "tokens": self.tokens,
            "saves": self.saves,
            "costs": self.costs,
            "calls": self.calls,
            "lasts": self.lasts,
            "needed": self.needed,
        }

    def explain(self) -> str:
        """The figures in one sentence, for whoever decides on such settings."""
        told = (
            f"It saves {self.tokens:,} tokens a call ({_write_dollars(self.saves)}), "
            f"costs about {_write_dollars(self.costs)} and {self.when}"
        )
        if self.needed:
            return f"{told}; the budget needs it now."
        return f"{told}; the budget needs one {_write_after(self.lasts)}."

    @property
    def when(self) -> str:
        """When it pays back, in words."""
        if self.calls is None:
            return "never pays back"
        return f"pays back {_write_after(self.calls)}"


def weigh_summary(
    plan: SummaryPlan, prices: TokenPrices, cached: float, *, needed: bool
) -> Payback:
    """Weigh a summary; ``cached`` is the share of a request that the cache knows."""
    rate = prices.price_input(cached)
    # What stands behind the summary was known, and is read anew once.
    anew = plan.kept * cached * (prices.input - prices.cached)
    costs = (
        plan.request * rate + plan.asked * prices.input + plan.answer * prices.output
    )
    lasts = int(max(0, plan.room) / plan.growth) if plan.growth else 0
    return Payback(plan.saved, plan.saved * rate, costs + anew, lasts, needed)


def _write_after(calls: int) -> str:
    return f"after {calls:,} call{'' if calls == 1 else 's'}"


def _write_dollars(amount: float) -> str:
    """Two digits that count, and never fewer than cents."""
    digits = 1 - math.floor(math.log10(amount)) if 0 < amount < 1 else 2
    return f"${amount:,.{max(2, digits)}f}"
