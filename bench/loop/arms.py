"""The ways of making contexts that are held against each other, and what each came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from statistics import mean, median_high, quantiles
from typing import Any

from genai_prices import Usage, calc_price

PRICED = "gpt-5-mini"
PRICED_BY = "openai"
#: Providers read nothing shorter than this from a cache.
LEAST_CACHED = 1_024
#: A window that no run fills, for the arm that sends everything.
WIDE = 1_000_000
#: A window that is soon filled: in a large one no flight comes to a summary. Every
#: schema would leave no room in it.
SUMMARISED = 24_000


@dataclass(frozen=True, slots=True)
class Arm:
    """One way: its letter, what it is, and the policy that it stands for."""

    letter: str
    title: str
    strategy: str
    options: Mapping[str, Any] = field(default_factory=dict)
    budget: int = 128_000


BARE: Mapping[str, Any] = {"state_block": False}
ON_DEMAND: Mapping[str, Any] = {"tools": "on_demand"}
NEW = "the default of a new fleet: tiered, tools on demand, 16,000 tokens"
ARMS = (
    Arm("a", "full history, no state block", "full", {**BARE, "result_cap": 0}, WIDE),
    Arm("b", "window of 20, no state block", "window", BARE),
    Arm("c", "snapshot window, no state block", "snapshot-window", BARE),
    Arm("d", "snapshot window with state block", "snapshot-window"),
    Arm("e", "tiered with state block", "tiered"),
    Arm("f", "coalesced with state block", "coalesced"),
    Arm("g", "tiered, compact tools", "tiered", {"tools": "compact"}),
    Arm("h", "tiered, tools on demand", "tiered", ON_DEMAND),
    Arm("i", NEW, "tiered", ON_DEMAND, 16_000),
    Arm("j", "mask: old results as notes, with state block", "mask"),
    Arm(
        "k", "summary, tools on demand, 24,000 tokens", "summary", ON_DEMAND, SUMMARISED
    ),
    Arm("l", "coalesced, tools on demand", "coalesced", ON_DEMAND),
)
#: What the others are held against.
BASELINE = ARMS[0]

#: When each captain asks, the same in all arms.
RULES = {
    "pilot": (
        "The pilot asks for a fact that its next step needs, where neither the state "
        "block nor an answer in view tells it: without a mark of its own later action, "
        "and not older than 30 ticks (60 for fuel, hull and credits). Never twice in a "
        "turn."
    ),
    "forgetful": (
        "The forgetful captain asks for its whole state before each step, and to see "
        "what came of it: get_status, get_ship, get_cargo, get_system, get_map, one at "
        "a time. It leaves out what the state block tells with its age and without a "
        "doubt, and asks again for what does not stand whole in the view. A turn ends "
        "when it has acted and seen, or at the limit of model calls."
    ),
}


# --- What an arm came to


@dataclass(frozen=True, slots=True)
class SentCall:
    """One model call: bytes and tokens sent, the bytes shared with the call before.

    ``size`` are those of the messages without the ``catalogue``, the lines for tools in
    them; ``schemas`` those of the tools that are sent beside them. ``state`` are the
    bytes of its state block, ``good`` the facts in it that count as good and ``wrong``
    those of them that were not true.
    """

    size: int
    tokens: int
    shared: int
    output: int
    state: int = 0
    good: int = 0
    wrong: int = 0
    schemas: int = 0
    catalogue: int = 0

    @property
    def whole(self) -> int:
        return self.size + self.schemas + self.catalogue


@dataclass(slots=True)
class ArmResult:
    """All that happened in one arm.

    ``gets`` are the models' calls of get_* tools, refused ones too; ``fetched`` are the
    game queries that the program made by itself.
    """

    calls: list[SentCall] = field(default_factory=list)
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

    def figures(self) -> dict[str, Any]:
        """The figures by key; ratios are None where nothing was done."""
        sizes = [call.size for call in self.calls] or [0]
        wholes = [call.whole for call in self.calls] or [0]
        tokens = [call.tokens for call in self.calls] or [0]
        states = [call.state for call in self.calls if call.state]
        total = sum(call.size + call.catalogue for call in self.calls)
        return {
            "model_calls": len(self.calls),
            "turns": self.turns,
            "actions": self.actions,
            "gets_per_action": _per(self.gets, self.actions),
            "queries_per_action": _per(self.gets + self.fetched, self.actions),
            "calls_per_action": _per(len(self.calls), self.actions),
            "iteration_limit_endings": self.limited,
            "whole_mean": round(mean(wholes)),
            "tools_mean": round(mean(wholes) - mean(sizes)),
            "bytes_mean": round(mean(sizes)),
            "bytes_p95": round(p95(sizes)),
            "tokens_mean": round(mean(tokens)),
            "tokens_p95": round(p95(tokens)),
            "state_bytes_median": median_high(states) if states else None,
            "state_bytes_most": max(states, default=None),
            "prefix_reuse": _per(sum(call.shared for call in self.calls), total),
            "cost": float(price_calls(self.calls)),
            "cost_per_action": _per(float(price_calls(self.calls)), self.actions),
            # Without a state block nothing is shown as good, so nothing can be wrong.
            "good_facts_per_call": (
                _per(sum(call.good for call in self.calls), len(states))
            ),
            "wrong_beliefs": sum(call.wrong for call in self.calls) if states else None,
            "summaries": self.summaries,
            "credits": self.credits,
            "went_idle": self.idle,
            "errored_turns": self.errors,
        }

    def document(self) -> dict[str, Any]:
        """The figures, the calls by tool, and the wrong beliefs by name."""
        return self.figures() | {
            "queries": dict(self.queries.most_common()),
            "wrong": sorted(set(self.wrong))[:20],
        }


def p95(values: Sequence[float]) -> float:
    """The 95th percentile, between two values if need be."""
    return quantiles(values, n=20)[-1] if len(values) > 1 else values[0]


def price_calls(calls: Sequence[SentCall]) -> Decimal:
    """US dollars at the list prices of one model; the shared beginning is cached."""
    return sum((_price(call) for call in calls), Decimal(0))


def _price(call: SentCall) -> Decimal:
    cached = call.tokens * call.shared // max(call.size + call.catalogue, 1)
    usage = Usage(
        input_tokens=call.tokens,
        cache_read_tokens=cached if cached >= LEAST_CACHED else 0,
        output_tokens=call.output,
    )
    return calc_price(usage, PRICED, provider_id=PRICED_BY).total_price


def _per(value: float, of: float) -> float | None:
    return value / of if of else None
