"""What a recorded call comes to under a policy: its size, its cost, and what it loses.

Tokens are our count, with the tools; costs are US dollars at list prices, with the answer
that was recorded.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import NamedTuple

from agents.llm.model_types import Endpoint, calculate_price, is_priced
from memory.assembly.prepare import PreparedRequest
from memory.context.result_types import Assembly

# What a provider keeps of a prompt is gone after so long, and nothing shorter is kept.
CACHE_LASTS = timedelta(minutes=5)
LEAST_CACHED = 1_024
# What became of a message of which the view has every word.
WHOLE = frozenset({"kept", "pinned", "displaced"})
FALLBACK = "fallback_used"
_HANDLE = re.compile(rb"ctx://[^/\s\"]+/(\d+)")
# Prices have their steps at whole thousands of tokens.
_STEP = 1_000
_MILLION = 1_000_000
# What should survive, each as a pair: kept, of how many.
SURVIVING = ("pins", "orders", "notes", "state_values")
Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class CallBase:
    """What a call had at its moment that should survive under any policy.

    By the ids of their messages: ``answers``, the results of tools that it was sent
    whole, and ``orders``, those that were open. ``state`` is its block of the game's
    state, which showed ``values`` values.
    """

    answers: frozenset[int]
    orders: frozenset[int]
    state: str
    values: int


@dataclass(slots=True)
class CallFigures:
    """One call under one policy. Pairs are how many were kept, of how many there were.

    ``messages`` is 0 where nothing could be sent. ``valid``: a provider would take it,
    and the policy's own strategy made it. ``shared_bytes`` stand at the beginning of
    its messages and of those of the call before; ``bytes`` are with system and tools.
    ``asks_summary``: the first call in a row that asks for a summary. Of the results
    that the recorded call had whole ``facts_lost`` are gone, with no newer one in their
    place; ``facts_with_handle`` of them are named by a handle in the view. ``view``
    begins its SHA-256. Costs are None without a price; ``cached_cost`` is with the
    provider's cache.
    """

    status: str
    valid: bool
    messages: int
    bytes: int
    tokens: int
    shared_bytes: int
    cost: float | None
    cached_cost: float | None
    asks_summary: bool
    over_budget: bool
    pins: Pair
    orders: Pair
    notes: Pair
    state_values: Pair
    facts_lost: int
    facts_with_handle: int
    view: str


def measure_view(
    made: PreparedRequest,
    base: CallBase,
    pricing: CallPricing,
    before: PreparedRequest | None,
) -> CallFigures:
    """The figures of a view; ``before`` is the one before under the same policy."""
    view, stats = made.assembly, made.assembly.stats
    sent = bool(view.messages)
    tokens = sum(stats["tokens_by_category"].values()) if sent else 0
    cached = _count_cached(made, before, tokens) if sent else 0
    lost = _find_lost(made, base.answers)
    shown = base.values if _shows_state(view, base.state) else 0
    return CallFigures(
        status=view.status,
        valid=sent and view.status != FALLBACK,
        messages=len(view.messages),
        bytes=sum(map(len, view.encoded)) + _measure_head(view),
        tokens=tokens,
        shared_bytes=stats["prefix_shared_bytes"],
        cost=pricing.calculate(tokens) if sent else None,
        cached_cost=pricing.calculate(tokens, cached) if sent else None,
        asks_summary=view.summary_wanted is not None,
        over_budget=bool(stats["over_budget"]),
        pins=(sum(pin.sent for pin in made.pins), len(made.subject.pins)),
        orders=(_count_orders(made, base.orders), len(base.orders)),
        notes=_count_notes(made),
        state_values=(shown, base.values),
        facts_lost=len(lost),
        facts_with_handle=len(lost & _list_handles(view)) if lost else 0,
        view=made.digest[:16],
    )


def list_whole(view: Assembly) -> frozenset[int]:
    """The stored messages that a view has word for word."""
    return frozenset(line.id for line in view.ledger if line.disposition in WHOLE)


def _count_orders(made: PreparedRequest, orders: frozenset[int]) -> int:
    """How many orders a view has word for word, be it as a quote in another message."""
    view = made.assembly
    if not view.messages:
        return 0
    left = orders - list_whole(view) - {*view.told}
    texts = [m.content for m in made.request.messages if m.id in left] if left else []
    quoted = sum(any(_quote(text) in each for each in view.encoded) for text in texts)
    return len(orders) - len(left) + quoted


def _quote(text: str) -> bytes:
    """A text as it stands within JSON."""
    return json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass")


def _find_lost(made: PreparedRequest, answers: frozenset[int]) -> frozenset[int]:
    """Those answers of which the view has neither the words nor a newer one."""
    view = made.assembly
    if not view.messages:
        return answers
    replaced = {line.id for line in view.ledger if line.disposition == "superseded"}
    lost = answers - list_whole(view) - replaced
    if lost and view.turns:
        # Its one message tells them among other things.
        text = str(view.messages[-1]["content"])
        rows = (m for m in made.request.messages if m.id in lost)
        lost -= {m.id for m in rows if _is_told(m.content, text)}
    return lost


def _is_told(content: str, text: str) -> bool:
    """Whether a text has all lines of another; those of indented JSON may be joined."""
    lines = content.splitlines()
    joined = " ".join(filter(None, map(str.strip, lines)))
    return joined in text or all(line in text for line in lines)


def _list_handles(view: Assembly) -> frozenset[int]:
    found = (number for each in view.encoded for number in _HANDLE.findall(each))
    return frozenset(map(int, found))


def _shows_state(view: Assembly, state: str) -> bool:
    """Whether the block of the game's state stands at the end of a view."""
    words = state.strip()
    if not words or not view.messages:
        return False
    ends = (message["content"] for message in view.messages[-2:])
    return any(words in text for content in ends for text in _list_texts(content))


def _list_texts(content: object) -> list[str]:
    if isinstance(content, str):
        return [content]
    blocks = content if isinstance(content, list) else []
    return [block["text"] for block in blocks if block.get("type") == "text"]


def _count_notes(made: PreparedRequest) -> Pair:
    """Notes whose text or name the view has, of all."""
    lost = sum(line.disposition == "dropped_for_budget" for line in made.assembly.notes)
    count = len(made.subject.notes)
    return (count - lost if made.assembly.messages else 0), count


def _measure_head(view: Assembly) -> int:
    """The bytes that are sent beside the messages: tools, and maybe the system text."""
    tools = len(view.offered.sent_text.encode()) if view.offered else 0
    return tools + len((view.system or "").encode()) if view.messages else 0


# --- What it costs


class _Rates(NamedTuple):
    """US dollars for a token."""

    input: float
    cached: float
    written: float
    output: float


@dataclass(frozen=True, slots=True)
class CallPricing:
    """How a call is paid for: where, for how long an answer, how long after the last.

    ``pause`` is None for the first call.
    """

    at: Endpoint | None
    output_tokens: int
    pause: timedelta | None

    def calculate(self, tokens: int, cached: int | None = None) -> float | None:
        """US dollars for so many tokens and the answer; None where no price is known.

        With the provider's cache, ``cached`` of them are read from it, as far as it
        still has them, and the others written into it.
        """
        if self.at is None or not _is_priced(self.at):
            return None
        rates = _find_rates(self.at, tokens // _STEP)
        answer = self.output_tokens * rates.output
        if cached is None:
            return tokens * rates.input + answer
        if self.pause is None or self.pause > CACHE_LASTS or cached < LEAST_CACHED:
            cached = 0
        return cached * rates.cached + (tokens - cached) * rates.written + answer


@lru_cache(maxsize=64)
def _is_priced(at: Endpoint) -> bool:
    return is_priced(at)


@lru_cache(maxsize=1024)
def _find_rates(at: Endpoint, thousands: int) -> _Rates:
    """The rates of a call with so many thousand tokens: long ones may cost more each."""
    size = thousands * _STEP + _STEP // 2
    plain = calculate_price(at, input_tokens=size, output_tokens=0)
    read = calculate_price(at, input_tokens=size, output_tokens=0, cached_tokens=size)
    wrote = calculate_price(at, input_tokens=size, output_tokens=0, written_tokens=size)
    answered = calculate_price(at, input_tokens=size, output_tokens=_MILLION) - plain
    prices = [float(price) / size for price in (plain, read, wrote)]
    return _Rates._make([*prices, float(answered) / _MILLION])


def _count_cached(
    made: PreparedRequest, before: PreparedRequest | None, tokens: int
) -> int:
    """The tokens that a provider knows from the call before, if it still does."""
    view = made.assembly
    shared: int = view.stats["prefix_shared_bytes"]
    if before is None or not shared:
        return 0
    last = before.assembly
    if (view.system, view.offered) != (last.system, last.offered):
        return 0
    categories = view.stats["tokens_by_category"]
    # Of the messages, the system text is the first in one dialect, and none in the other.
    apart = ("tools",) if view.system is None else ("tools", "system", "pins", "notes")
    head: int = sum(categories.get(name, 0) for name in apart)
    return head + (tokens - head) * shared // sum(map(len, view.encoded))
