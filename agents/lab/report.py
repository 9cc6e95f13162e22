"""The figures of all calls of a replay, added up by policy.

Nothing here depends on a clock, so the same calls under the same policies give the same
report, digit for digit.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from agents.lab.call_figures import SURVIVING, CallFigures

SUMMARIES = (
    "Every policy was given the summaries that were recorded: what its own would have "
    "saved and cost is not in its figures."
)
MISSING = (
    "They were there when the replay was asked for and gone when it came to them, so they "
    "are in no figure."
)
# How a pair of what survived is told.
_PAIR = ("kept", "of")
Json = dict[str, Any]


@dataclass(slots=True)
class ReportBuilder:
    """The report of a replay, made call by call.

    ``differing`` and ``unknown`` count the sentences that say why calls did not come
    out as they were sent, and what is not kept of their moment.
    """

    calls: int = 0
    equal: int = 0
    differing: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    totals: dict[str, PolicyTotals] = field(default_factory=dict)

    def add(
        self, figures: Mapping[str, CallFigures], differs: str, unknown: Iterable[str]
    ) -> None:
        """Add one call."""
        self.calls += 1
        self.equal += not differs
        if differs:
            self.differing[differs] += 1
        self.unknown.update(unknown)
        for name, one in figures.items():
            self.totals.setdefault(name, PolicyTotals()).add(one)

    def note_missing(self, total: int) -> None:
        """Say how many of the ``total`` calls that there were did not come."""
        if total > self.calls:
            self.unknown[MISSING] = total - self.calls

    def describe(self, names: Iterable[str]) -> Json:
        """All of it as JSON, with the totals of these policies in their order."""
        return {
            "calls": self.calls,
            "equal": self.equal,
            "differing": dict(sorted(self.differing.items())),
            "unknown": dict(sorted(self.unknown.items())),
            "policies": [
                {"name": name} | self.totals.get(name, PolicyTotals()).describe()
                for name in names
            ],
        }


@dataclass(slots=True)
class PolicyTotals:
    """The figures of all calls under one policy, added up as they come.

    Of each call only its tokens are kept: four bytes.
    """

    requests: int = 0
    unsent: int = 0
    invalid: int = 0
    over_budget: int = 0
    compactions: int = 0
    messages: int = 0
    bytes: int = 0
    shared_bytes: int = 0
    unpriced: int = 0
    cost: float = 0.0
    cached_cost: float = 0.0
    kept: dict[str, list[int]] = field(default_factory=dict)
    facts_lost: int = 0
    facts_with_handle: int = 0
    tokens: array[int] = field(default_factory=lambda: array("I"))

    def add(self, one: CallFigures) -> None:
        """Add one call."""
        self.invalid += not one.valid
        self.over_budget += one.over_budget
        self.compactions += one.asks_summary
        self.facts_lost += one.facts_lost
        self.facts_with_handle += one.facts_with_handle
        for name in SURVIVING:
            had = self.kept.setdefault(name, [0, 0])
            kept, count = getattr(one, name)
            had[0] += kept
            had[1] += count
        if not one.messages:
            self.unsent += 1
            return
        self.requests += 1
        self.messages += one.messages
        self.bytes += one.bytes
        self.shared_bytes += one.shared_bytes
        self.tokens.append(one.tokens)
        if one.cost is None or one.cached_cost is None:
            self.unpriced += 1
        else:
            self.cost += one.cost
            self.cached_cost += one.cached_cost

    def describe(self) -> Json:
        """The totals as JSON; a mean of nothing is 0."""
        count = max(1, self.requests)
        tokens = sorted(self.tokens)
        priced = self.requests > self.unpriced
        return {
            "requests": self.requests,
            "unsent": self.unsent,
            "invalid": self.invalid,
            "over_budget": self.over_budget,
            "compactions": self.compactions,
            "messages": round(self.messages / count, 1),
            "bytes": round(self.bytes / count),
            "tokens": {
                "mean": round(sum(tokens) / count),
                "p95": tokens[ceil(0.95 * len(tokens)) - 1] if tokens else 0,
                "most": tokens[-1] if tokens else 0,
                "sum": sum(tokens),
            },
            "shared": round(self.shared_bytes / self.bytes, 4) if self.bytes else 0.0,
            "cost": round(self.cost, 6) if priced else None,
            "cached_cost": round(self.cached_cost, 6) if priced else None,
            "unpriced": self.unpriced,
            **{
                name: dict(zip(_PAIR, self.kept.get(name, (0, 0)), strict=True))
                for name in SURVIVING
            },
            "facts_lost": self.facts_lost,
            "facts_with_handle": self.facts_with_handle,
        }
