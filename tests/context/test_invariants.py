"""The invariants of the contract over nasty logs, for every registered strategy."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memory.context.assemble import assemble
from memory.context.call_ids import make_call_id
from memory.context.documents import build_result_document, parse_request
from memory.context.types import Budget, Message
from tests.context import checks
from tests.context.cases import (
    OFFERED,
    PINS,
    ROOMY,
    build,
    fast,
    in_every_way,
    name_of,
    only_if,
    requests,
    slow,
    window_options,
)
from tests.context.histories import (
    HUGE,
    TEXTS,
    Log,
    histories,
    renamed,
    shuffled,
    valid_histories,
)


@fast
@given(histories(), requests, st.integers(1, 12))
@in_every_way
def test_every_view_is_valid_and_accounted_for(
    strategy: str, dialect: Any, log: Log, more: dict[str, Any], size: int
) -> None:
    """I4 to I10, I20, I28: whatever the log, the view is valid and the books agree."""
    request, result = build(
        log,
        strategy,
        dialect=dialect,
        options=window_options(strategy, size),
        **more,
    )
    assert result.status != "fallback_used", result.reason
    checks.check_wire(request, result)
    checks.check_shape(result)
    checks.check_ledger(request, result)
    checks.check_sources(request, result)


@fast
@given(histories(), requests)
@in_every_way
def test_the_budget_holds(
    strategy: str, dialect: Any, log: Log, more: dict[str, Any]
) -> None:
    """I13: never a silent overrun, and what is impossible says which part and why."""
    request, result = build(log, strategy, dialect=dialect, **more)
    if result.status == "budget_impossible":
        assert result.impossible is not None
        assert result.impossible.need > result.impossible.have >= 0
        assert result.impossible.component
        return
    spent = result.stats["tokens_out"] + request.tools_tokens + request.budget.reserve
    if result.messages:
        assert spent <= request.budget.tokens
    by_category = dict(result.stats["tokens_by_category"])
    if result.messages:
        assert by_category.pop("tools") == request.tools_tokens
        assert sum(by_category.values()) == result.stats["tokens_out"]
    if dialect == "openai" and request.counter == "chars":
        assert result.stats["tokens_out"] == checks.tokens_of(request, result)


@slow
@given(histories(st.one_of(TEXTS, HUGE)), st.integers(200, 60_000))
@in_every_way
def test_huge_texts_fit_or_are_refused(
    strategy: str, dialect: Any, log: Log, tokens: int
) -> None:
    """I13 and I29 with texts of up to a megabyte."""
    budget = Budget(tokens, 0)
    request, result = build(log, strategy, dialect=dialect, budget=budget)
    checks.check_wire(request, result)
    assert result.stats["tokens_out"] <= tokens
    json.dumps(build_result_document(result), ensure_ascii=False).encode("utf-8")


@fast
@given(histories(), requests)
@in_every_way
def test_it_is_pure_and_deterministic(
    strategy: str, log: Log, more: dict[str, Any]
) -> None:
    """I1, I2: the input is unchanged and the same input gives the same bytes."""
    request, _ = build(log, strategy, **more)
    before = deepcopy(request.messages)
    first = json.dumps(build_result_document(assemble(request)))
    assert request.messages == before
    assert hash(request.messages) == hash(before)
    assert json.dumps(build_result_document(assemble(request))) == first


@fast
@given(
    histories(),
    st.integers(1, 12),
    st.sampled_from([(), PINS]),
    st.sampled_from(OFFERED),
)
@in_every_way
def test_a_view_fed_back_stays_as_it_is(
    strategy: str, log: Log, size: int, pins: tuple[str, ...], offered: Any
) -> None:
    """I3: assembling a view changes nothing any more."""
    options = window_options(strategy, size)
    if offered is not None:
        options |= {"tools": offered.mode}
    request, once = build(
        log, strategy, budget=ROOMY, pins=pins, options=options, offered=offered
    )
    only_if(once.messages)
    rows = {row.id: row for row in request.messages}
    document = {
        "messages": [
            {**message, **marks(rows[source])} if isinstance(source, int) else message
            for message, source in zip(once.messages, once.sources, strict=True)
        ],
        "strategy": request.strategy,
        "options": request.options,
        "pins": list(pins),
        "budget": {"tokens": ROOMY.tokens, "reserve": 0},
        "tools": list(offered.known) if offered else {},
    }
    again = assemble(parse_request(document))
    added = again.stats["tokens_in"] > once.stats["tokens_in"]
    # A view below its mark may reach it by what was added to be sent: that is a
    # compaction, and recorded as one (I26).
    below = name_of(strategy) == "tiered" and once.status == "unchanged"
    only_if(not (below and added))
    assert again.messages == once.messages


def marks(row: Message) -> dict[str, object]:
    """What a store knows of a row beside what goes over the wire."""
    return {
        "is_error": row.is_error,
        "pending": row.pending,
        "signed": row.signed,
        "signature": row.signature,
        "origin": row.origin,
    }


@fast
@given(histories(), requests)
@in_every_way
def test_the_output_is_clean_utf8(
    strategy: str, dialect: Any, log: Log, more: dict[str, Any]
) -> None:
    """I29: encodes as UTF-8 JSON, and holds no NUL."""
    _, result = build(log, strategy, dialect=dialect, **more)
    document = build_result_document(result)
    text = json.dumps(document, ensure_ascii=False, allow_nan=False)
    text.encode("utf-8")
    for content in checks.texts_of(result):
        assert "\x00" not in content


@fast
@given(histories(), requests)
@in_every_way
def test_the_order_of_rows_does_not_matter(
    strategy: str, log: Log, more: dict[str, Any]
) -> None:
    """I30: rows in whatever order the store hands them out."""
    request, result = build(log, strategy, **more)
    mixed = assemble(replace(request, messages=shuffled(request.messages)))
    assert build_result_document(mixed) == build_result_document(result)


@fast
@given(histories(), requests)
@in_every_way
def test_names_and_clocks_do_not_matter(
    strategy: str, log: Log, more: dict[str, Any]
) -> None:
    """Renaming all call ids or shifting all times changes no kept message."""
    request, result = build(log, strategy, **more)
    other = assemble(replace(request, messages=renamed(request.messages, "p")))
    assert other.sources == result.sources
    assert other.stats == result.stats
    later = tuple(
        replace(message, created_at="2026-02-05T00:00:00Z", tick=9)
        for message in request.messages
    )
    moved = assemble(replace(request, messages=later))
    assert build_result_document(moved) == build_result_document(result)


@fast
@given(valid_histories(), st.sampled_from([None, "You are Ada."]))
def test_full_is_the_identity_on_a_valid_log(log: Log, system: str | None) -> None:
    """repair(valid) = valid but for the ids of calls, and nothing is left out."""
    request, result = build(log, "full", budget=ROOMY, system=system)
    expected = [{"role": "system", "content": system}] if system else []
    ids: dict[str | None, str] = {}
    for message in request.messages:
        wire: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.tool_calls:
            wire["content"] = message.content or None
            wire["tool_calls"] = [
                {
                    "id": make_call_id(call.id, message.id, index),
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for index, call in enumerate(message.tool_calls)
            ]
            made = (call["id"] for call in wire["tool_calls"])
            ids |= zip((call.id for call in message.tool_calls), made, strict=True)
        if message.role == "tool":
            wire["tool_call_id"] = ids[message.tool_call_id]
        expected.append(wire)
    assert result.messages == expected
    assert result.status == "unchanged"
