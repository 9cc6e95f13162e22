"""Every strategy, also where it acts on small logs, and what it is asked with."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import wraps
from itertools import product
from typing import Any

from hypothesis import note, settings
from hypothesis import strategies as st

from memory.context import registry
from memory.context.assemble import assemble
from memory.context.offered_tools import offer_tools
from memory.context.result_types import Assembly
from memory.context.text import clean_text
from memory.context.types import (
    TOOL_MODES,
    AssemblyRequest,
    Budget,
    Compaction,
    Message,
    Summary,
)
from tests.context.histories import Log
from tests.context.tools import list_described
from tests.long_run import few_or_many

STRATEGIES = registry.list_names()
PINS = ("never attack miners", "report to Ada-7")
ROOMY = Budget(10_000_000, 0)
STATE = "## Current Game State\n\n" + "- Fuel: 60/100\n" * 40

# Each strategy gets some 200 logs, in both dialects. For more:
# CONTEXT_EXAMPLES=2000 pytest tests/context
EXAMPLES = int(os.environ.get("CONTEXT_EXAMPLES", few_or_many(15, 120)))
fast = settings(max_examples=EXAMPLES)
slow = settings(max_examples=few_or_many(6, 24))

#: Options under which a strategy acts on small logs as on large ones by default.
EAGER: dict[str, dict[str, object]] = {
    "mask:eager": {"keep_results": 1, "min_tokens": 3, "batch_fraction": 0.0},
    "summary:eager": {"threshold": 1, "keep_recent": 1, "max_summary_tokens": 1},
    "tiered:eager": {
        "keep_results": 1,
        "min_tokens": 3,
        "batch_fraction": 0.0,
        "keep_recent": 1,
        "max_summary_tokens": 1,
        "hi": 0.000_01,
        "lo": 0.0,
    },
    "coalesced:eager": {"println_limit": 1, "tool_call_limit": 0},
    "summary:two": {"threshold": 1, "keep_recent": 0, "max_summary_tokens": 1},
}
CASES = (*STRATEGIES, *EAGER)
DIALECTS = ("openai", "anthropic")
Test = Callable[..., None]


class ShowsNothing(Exception):
    """What was drawn shows nothing of one strategy; it may of the others."""


def only_if(holds: object) -> None:
    """As ``assume``, for the one case at hand: the others still get the log."""
    if not holds:
        raise ShowsNothing


def with_each(*cases: str, each_dialect: bool = True) -> Callable[[Test], Test]:
    """Give each drawn log to all of these, in both dialects where the test takes one.

    To draw a log takes five times as long as to assemble it. Where it is not to have
    ``each_dialect``, the test draws one itself. How often each case was seen through is
    counted: ``conftest`` fails a property that came so far with no log of one of them.
    """
    ways: dict[str, Sequence[str]] = {"strategy": cases}
    if each_dialect:
        ways["dialect"] = DIALECTS

    def give(test: Test) -> Test:
        signature = inspect.signature(test)
        names = [name for name in ways if name in signature.parameters]
        drawn = [
            each for name, each in signature.parameters.items() if name not in ways
        ]
        every = list(product(*(ways[name] for name in names)))
        checked = dict.fromkeys(map(" ".join, every), 0)

        @wraps(test)
        def run(*values: Any) -> None:
            for way in every:
                note(" ".join(way))
                with suppress(ShowsNothing):
                    test(*way, *values)
                    checked[" ".join(way)] += 1

        run.__signature__ = signature.replace(parameters=drawn)  # type: ignore[attr-defined]
        run.checked = checked  # type: ignore[attr-defined]
        return run

    return give


in_every_way = with_each(*CASES)


def render_state(max_bytes: int) -> str:
    lines, size = [], 0
    for line in STATE.splitlines(keepends=True):
        size += len(line)
        if size > max_bytes:
            break
        lines.append(line)
    return "".join(lines)


#: The tools of a call as they may be offered; None where they are not known.
OFFERED = (
    None,
    *(offer_tools(list_described()[-4:], mode, ("*",)) for mode in TOOL_MODES),
)

budgets = st.one_of(
    st.just(ROOMY),
    st.builds(Budget, st.integers(0, 900), st.integers(0, 60)),
    st.builds(Budget, st.integers(300, 4_000), st.just(100)),
)
summaries = st.builds(
    Summary,
    st.integers(0, 40),
    st.sampled_from(["Iron is at A-1.", "採掘 \ud800", "", "word " * 200]),
    st.integers(1, 3),
)
requests = st.fixed_dictionaries(
    {
        "system": st.sampled_from([None, None, "You are Ada.", "", " ", "odd \ud800"]),
        "pins": st.sampled_from([(), (), PINS]),
        "budget": budgets,
        "counter": st.sampled_from(["estimate", "chars"]),
        "render_state": st.sampled_from([None, render_state]),
        "tools_tokens": st.sampled_from([0, 0, 25]),
        "offered": st.sampled_from(OFFERED),
        "tool_policy": st.just({"login": "secret"}),
        "summary": st.one_of(st.none(), summaries),
        "compaction": st.sampled_from(
            [
                Compaction(),
                Compaction(reported_tokens=10**7, reported_through=3, prompt="Sum up."),
                Compaction(breaker_open=True),
                Compaction(cooling_turns=2),
                Compaction(failure="timeout"),
            ]
        ),
    }
)


def window_options(strategy: str, size: int) -> dict[str, object]:
    params = registry.find_strategy(name_of(strategy)).params
    names = {each.name for each in fields(params)}
    return {"window": size} if "window" in names else {}


def name_of(case: str) -> str:
    return case.partition(":")[0]


def options_of(case: str) -> dict[str, object]:
    return EAGER.get(case, {})


def build(log: Log, strategy: str, **more: Any) -> tuple[AssemblyRequest, Assembly]:
    """The view by a strategy, eager where the case says so."""
    more["options"] = {**options_of(strategy), **more.get("options", {})}
    request = AssemblyRequest(log.done(), strategy=name_of(strategy), **more)
    return request, assemble(request)


def sendable(message: Message, dialect: str) -> bool:
    text = clean_text(message.content)
    return bool(text.strip() if dialect == "anthropic" else text)


def newest_order(messages: tuple[Message, ...], dialect: str) -> Message | None:
    orders = [
        message
        for message in messages
        if message.role in ("user", "system")
        and message.origin in ("human", "broadcast")
        and sendable(message, dialect)
    ]
    return orders[-1] if orders else None


def newest_head(messages: tuple[Message, ...], dialect: str) -> Message | None:
    heads = [
        message
        for message in messages
        if message.role != "tool"
        and message.origin != "prompt"
        and (message.tool_calls or sendable(message, dialect))
        and (message.tool_calls or not message.pinned or not message.content.strip())
    ]
    return heads[-1] if heads else None
