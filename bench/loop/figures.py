"""What one arm came to, added up from its calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from statistics import mean, quantiles
from typing import Any

from genai_prices import Usage, calc_price

PRICED = "gpt-5-mini"
PRICED_BY = "openai"
#: Providers read nothing shorter than this from a cache.
LEAST_CACHED = 1_024


@dataclass(frozen=True, slots=True)
class Sent:
    """One model call: bytes and tokens sent, the bytes shared with the call before.

    ``state`` are the bytes of its state block, ``good`` the facts in it that count as
    good and ``wrong`` those of them that were not true.
    """

    size: int
    tokens: int
    shared: int
    output: int
    state: int = 0
    good: int = 0
    wrong: int = 0


@dataclass(slots=True)
class Flown:
    """All that happened in one arm.

    `gets` are the models' calls of get_* tools, refused ones too; `fetched` are the
    game queries that the program made by itself.
    """

    calls: list[Sent] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    turns: int = 0
    limited: int = 0
    idle: int = 0
    gets: int = 0
    fetched: int = 0
    actions: int = 0
    summaries: int = 0
    credits: int = 0
    errors: int = 0
    queries: Counter[str] = field(default_factory=Counter)

    def measured(self) -> dict[str, Any]:
        """The figures of the table; ratios are None where nothing was done."""
        sizes = [call.size for call in self.calls] or [0]
        tokens = [call.tokens for call in self.calls] or [0]
        states = [call.state for call in self.calls if call.state]
        total = sum(sizes)
        return {
            "model_calls": len(self.calls),
            "turns": self.turns,
            "actions": self.actions,
            "gets_per_action": _per(self.gets, self.actions),
            "queries_per_action": _per(self.gets + self.fetched, self.actions),
            "calls_per_action": _per(len(self.calls), self.actions),
            "fetched_by_code": self.fetched,
            "iteration_limit_endings": self.limited,
            "bytes_mean": round(mean(sizes)),
            "bytes_p95": round(p95(sizes)),
            "tokens_mean": round(mean(tokens)),
            "tokens_p95": round(p95(tokens)),
            "state_bytes_median": sorted(states)[len(states) // 2] if states else None,
            "state_bytes_most": max(states, default=None),
            "prefix_reuse": _per(sum(call.shared for call in self.calls), total),
            "cost": float(cost(self.calls)),
            "cost_per_action": _per(float(cost(self.calls)), self.actions),
            # Without a state block nothing is shown as good, so nothing can be wrong.
            "good_facts": sum(call.good for call in self.calls) if states else None,
            "wrong_beliefs": sum(call.wrong for call in self.calls) if states else None,
            "summaries": self.summaries,
            "credits": self.credits,
            "went_idle": self.idle,
            "errored_turns": self.errors,
        }

    def document(self) -> dict[str, Any]:
        """The figures, the queries by tool, and the wrong beliefs by name."""
        return self.measured() | {
            "queries": dict(self.queries.most_common()),
            "wrong": sorted(set(self.wrong))[:20],
        }


def p95(values: Sequence[float]) -> float:
    """The value that 95 of 100 do not exceed."""
    return quantiles(values, n=20)[-1] if len(values) > 1 else values[0]


def cost(calls: Sequence[Sent]) -> Decimal:
    """US dollars at list prices of one model, the shared beginning read from a cache."""
    return sum((_price(call) for call in calls), Decimal(0))


def _price(call: Sent) -> Decimal:
    cached = call.tokens * call.shared // max(call.size, 1)
    usage = Usage(
        input_tokens=call.tokens,
        cache_read_tokens=cached if cached >= LEAST_CACHED else 0,
        output_tokens=call.output,
    )
    return calc_price(usage, PRICED, provider_id=PRICED_BY).total_price


def _per(value: float, of: float) -> float | None:
    return value / of if of else None
