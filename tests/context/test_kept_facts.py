"""What a view keeps of a nasty log, whatever the strategy."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memory.context.documents import build_result_document
from memory.context.result_types import Assembly
from memory.context.text import clean_text
from memory.context.types import Budget
from tests.context import checks
from tests.context.cases import (
    CASES,
    ROOMY,
    build,
    fast,
    in_every_way,
    name_of,
    newest_head,
    newest_order,
    only_if,
    requests,
    window_options,
    with_each,
)
from tests.context.histories import SECRET, Log, histories
from tests.context.views import sent


@fast
@given(histories(), requests)
@in_every_way
def test_orders_and_the_newest_unit_are_never_lost(
    strategy: str, dialect: Any, log: Log, more: dict[str, Any]
) -> None:
    """I16 to I18: pins once and verbatim, the newest order, the newest unit."""
    request, result = build(log, strategy, dialect=dialect, **more)
    only_if(result.messages)
    texts = checks.texts_of(result)
    for pin in request.pins:
        assert sum(text.count(pin) for text in texts) == 1
    order = newest_order(request.messages, dialect)
    if order is not None:
        handle = f"ctx://{request.mysis}/{order.id}]"
        whole = any(clean_text(order.content) in text for text in texts)
        assert whole or any(handle in text for text in texts)
    newest = newest_head(request.messages, dialect)
    lines = {line.id: line for line in result.ledger}
    if newest is not None and not folds_all(strategy):
        assert lines[newest.id].disposition in (
            "kept",
            "pinned",
            "displaced",
            "truncated",
        )


def folds_all(case: str) -> bool:
    """Whether the newest unit too may be told in a made-up message."""
    return case == "summary:two" or name_of(case) == "coalesced"


@fast
@given(histories())
@in_every_way
def test_surviving_calls_and_signed_messages_are_untouched(
    strategy: str, log: Log
) -> None:
    """I11, I12: siblings of a pruned call and signed messages keep every byte."""
    request, result = build(log, strategy, budget=ROOMY)
    stored = {message.id: message for message in request.messages}
    for message, source in zip(result.messages, result.sources, strict=True):
        row = stored.get(source) if isinstance(source, int) else None
        if row is None or row.role != "assistant":
            continue
        signed = row.signed or row.signature is not None
        if signed or not row.pinned:
            assert (message["content"] or "") == clean_text(row.content)
        if signed:
            assert len(message.get("tool_calls", [])) == len(row.tool_calls)
        originals = [call.arguments for call in row.tool_calls]
        for call in message.get("tool_calls", []):
            arguments = call["function"]["arguments"]
            assert (
                arguments == "{}" or "\\u" in str(originals) or arguments in originals
            )


@fast
@given(histories(), st.sampled_from([0, 40]))
@in_every_way
def test_nothing_is_inflated(strategy: str, log: Log, cap: int) -> None:
    """I14: a view is larger than its log only by what was put in beside it."""
    request, result = build(
        log, strategy, budget=ROOMY, counter="chars", options={"result_cap": cap}
    )
    added = sum(
        len(result.messages[entry.position]["content"]) for entry in result.synthetic
    )
    header = result.stats["tokens_by_category"]["pins"] + 100 * len(
        [line for line in result.ledger if line.disposition == "pinned"]
    )
    # Texts of one side are joined by an empty line.
    joined = [source for source in result.sources if isinstance(source, list)]
    header += 2 * sum(len(source) - 1 for source in joined)
    # A call without a name or arguments is sent as one of `unknown` with `{}`.
    header += 9 * sum(len(message.tool_calls) for message in request.messages)
    assert result.stats["tokens_out"] <= result.stats["tokens_in"] + added + header
    for line in result.ledger:
        if line.disposition in ("superseded", "masked"):
            assert line.tokens_out < max(1, line.tokens_in)


@fast
@given(histories(), st.integers(1, 10), st.integers(1, 6))
@with_each(*(name for name in CASES if window_options(name, 1)))
def test_a_larger_window_never_keeps_less(
    strategy: str, log: Log, size: int, more: int
) -> None:
    """I15 for the window."""
    smaller = window_options(strategy, size)
    larger = window_options(strategy, size + more)
    _, small = build(log, strategy, budget=ROOMY, options=smaller)
    _, large = build(log, strategy, budget=ROOMY, options=larger)
    assert real(small) <= real(large)


@fast
@given(histories(), st.integers(0, 3_000), st.integers(1, 600))
@with_each("full", "window", "snapshot-window")
def test_a_larger_budget_never_keeps_less(
    strategy: str, log: Log, tokens: int, more: int
) -> None:
    """I15 for the budget, where nothing had to be cut."""
    options = {"result_cap": 0}
    _, small = build(log, strategy, budget=Budget(tokens, 0), options=options)
    _, large = build(log, strategy, budget=Budget(tokens + more, 0), options=options)
    only_if(
        not any(
            line.by == "budget" and line.disposition == "truncated"
            for result in (small, large)
            for line in result.ledger
        )
    )
    assert len(real(small)) <= len(real(large))


def real(result: Assembly) -> set[int]:
    return set(sent(result))


@fast
@given(histories(), requests)
@in_every_way
def test_secrets_are_nowhere(strategy: str, log: Log, more: dict[str, Any]) -> None:
    """I27: neither in messages nor in ledger, reasons or statistics."""
    log = deepcopy(log)
    log.calls(("s", "login", json.dumps({"password": SECRET})))
    log.result("s", json.dumps({"session_id": SECRET, "player": "Ada"}))
    log.says(f"I use {SECRET} from now on.")
    log.user(f"Is {SECRET} right?")
    _, result = build(log, strategy, **more)
    assert SECRET not in json.dumps(build_result_document(result))
