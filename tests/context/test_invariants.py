"""The invariants of the contract over nasty logs, for every registered strategy."""

from __future__ import annotations

import json
import os
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from memory.context import registry
from memory.context.assemble import assemble
from memory.context.documents import parse_request, result_document
from memory.context.text import clean
from memory.context.types import (
    Assembly,
    AssemblyRequest,
    Budget,
    Compaction,
    Message,
    Summary,
)
from tests.context import checks
from tests.context.histories import (
    HUGE,
    SECRET,
    TEXTS,
    Log,
    histories,
    renamed,
    shuffled,
    valid_histories,
)

STRATEGIES = registry.names()
PINS = ("never attack miners", "report to Ada-7")
ROOMY = Budget(10_000_000, 0)
STATE = "## Current Game State\n\n" + "- Fuel: 60/100\n" * 40

#: Together more than 10,000 logs. For a long run:
#: CONTEXT_EXAMPLES=2000 pytest tests/context/test_invariants.py
EXAMPLES = int(os.environ.get("CONTEXT_EXAMPLES", "60"))

fast = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
slow = settings(fast, max_examples=EXAMPLES // 5)
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
every_strategy = pytest.mark.parametrize("strategy", CASES)
every_dialect = pytest.mark.parametrize("dialect", ["openai", "anthropic"])


def render_state(max_bytes: int) -> str:
    lines, size = [], 0
    for line in STATE.splitlines(keepends=True):
        size += len(line)
        if size > max_bytes:
            break
        lines.append(line)
    return "".join(lines)


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
    names = {spec.name for spec in registry.option_specs(name_of(strategy))}
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


@every_dialect
@every_strategy
@fast
@given(histories(), requests, st.integers(1, 12))
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


@every_dialect
@every_strategy
@fast
@given(histories(), requests)
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
    if dialect == "openai":
        assert result.stats["tokens_out"] == checks.tokens_of(request, result)


@every_dialect
@every_strategy
@slow
@given(histories(st.one_of(TEXTS, HUGE)), st.integers(200, 60_000))
def test_huge_texts_fit_or_are_refused(
    strategy: str, dialect: Any, log: Log, tokens: int
) -> None:
    """I13 and I29 with texts of up to a megabyte."""
    budget = Budget(tokens, 0)
    request, result = build(log, strategy, dialect=dialect, budget=budget)
    checks.check_wire(request, result)
    assert result.stats["tokens_out"] <= tokens
    json.dumps(result_document(result), ensure_ascii=False).encode("utf-8")


@every_strategy
@fast
@given(histories(), requests)
def test_it_is_pure_and_deterministic(
    strategy: str, log: Log, more: dict[str, Any]
) -> None:
    """I1, I2: the input is unchanged and the same input gives the same bytes."""
    request, _ = build(log, strategy, **more)
    before = deepcopy(request.messages)
    first = json.dumps(result_document(assemble(request)))
    assert request.messages == before
    assert hash(request.messages) == hash(before)
    assert json.dumps(result_document(assemble(request))) == first


@every_strategy
@fast
@given(histories(), st.integers(1, 12), st.sampled_from([(), PINS]))
def test_a_view_fed_back_stays_as_it_is(
    strategy: str, log: Log, size: int, pins: tuple[str, ...]
) -> None:
    """I3: assembling a view changes nothing any more."""
    options = window_options(strategy, size)
    request, once = build(log, strategy, budget=ROOMY, pins=pins, options=options)
    assume(once.messages)
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
    }
    assert assemble(parse_request(document)).messages == once.messages


def marks(row: Message) -> dict[str, object]:
    """What a store knows of a row beside what goes over the wire."""
    return {
        "is_error": row.is_error,
        "pending": row.pending,
        "signed": row.signed,
        "signature": row.signature,
        "origin": row.origin,
    }


@every_dialect
@every_strategy
@fast
@given(histories(), requests)
def test_orders_and_the_newest_unit_are_never_lost(
    strategy: str, dialect: Any, log: Log, more: dict[str, Any]
) -> None:
    """I16 to I18: pins once and verbatim, the newest order, the newest unit."""
    request, result = build(log, strategy, dialect=dialect, **more)
    assume(result.messages)
    texts = checks.texts_of(result)
    for pin in request.pins:
        assert sum(text.count(pin) for text in texts) == 1
    order = newest_order(request.messages, dialect)
    if order is not None:
        handle = f"ctx://{request.mysis}/{order.id}]"
        whole = any(clean(order.content) in text for text in texts)
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


def sendable(message: Message, dialect: str) -> bool:
    text = clean(message.content)
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


@every_strategy
@fast
@given(histories())
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
            assert (message["content"] or "") == clean(row.content)
        if signed:
            assert len(message.get("tool_calls", [])) == len(row.tool_calls)
        originals = [call.arguments for call in row.tool_calls]
        for call in message.get("tool_calls", []):
            arguments = call["function"]["arguments"]
            assert (
                arguments == "{}" or "\\u" in str(originals) or arguments in originals
            )


@every_strategy
@fast
@given(histories(), st.sampled_from([0, 40]))
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
    # A call without a name or arguments is sent as one of `unknown` with `{}`.
    header += 9 * sum(len(message.tool_calls) for message in request.messages)
    assert result.stats["tokens_out"] <= result.stats["tokens_in"] + added + header
    for line in result.ledger:
        if line.disposition in ("superseded", "masked"):
            assert line.tokens_out < max(1, line.tokens_in)


@pytest.mark.parametrize(
    "strategy", [name for name in CASES if window_options(name, 1)]
)
@fast
@given(histories(), st.integers(1, 10), st.integers(1, 6))
def test_a_larger_window_never_keeps_less(
    strategy: str, log: Log, size: int, more: int
) -> None:
    """I15 for the window."""
    smaller = window_options(strategy, size)
    larger = window_options(strategy, size + more)
    _, small = build(log, strategy, budget=ROOMY, options=smaller)
    _, large = build(log, strategy, budget=ROOMY, options=larger)
    assert real(small) <= real(large)


@pytest.mark.parametrize("strategy", ["full", "window", "snapshot-window"])
@fast
@given(histories(), st.integers(0, 3_000), st.integers(1, 600))
def test_a_larger_budget_never_keeps_less(
    strategy: str, log: Log, tokens: int, more: int
) -> None:
    """I15 for the budget, where nothing had to be cut."""
    options = {"result_cap": 0}
    _, small = build(log, strategy, budget=Budget(tokens, 0), options=options)
    _, large = build(log, strategy, budget=Budget(tokens + more, 0), options=options)
    for result in (small, large):
        cut = any(
            line.by == "budget" and line.disposition == "truncated"
            for line in result.ledger
        )
        assume(not cut)
    assert len(real(small)) <= len(real(large))


def real(result: Assembly) -> set[int]:
    return {source for source in result.sources if isinstance(source, int)}


@every_strategy
@fast
@given(histories(), requests)
def test_secrets_are_nowhere(strategy: str, log: Log, more: dict[str, Any]) -> None:
    """I27: neither in messages nor in ledger, reasons or statistics."""
    log.calls(("s", "login", json.dumps({"password": SECRET})))
    log.result("s", json.dumps({"session_id": SECRET, "player": "Ada"}))
    log.says(f"I use {SECRET} from now on.")
    log.user(f"Is {SECRET} right?")
    _, result = build(log, strategy, **more)
    assert SECRET not in json.dumps(result_document(result))


@every_dialect
@every_strategy
@fast
@given(histories(), requests)
def test_the_output_is_clean_utf8(
    strategy: str, dialect: Any, log: Log, more: dict[str, Any]
) -> None:
    """I29: encodes as UTF-8 JSON, and holds no NUL."""
    _, result = build(log, strategy, dialect=dialect, **more)
    document = result_document(result)
    text = json.dumps(document, ensure_ascii=False, allow_nan=False)
    text.encode("utf-8")
    for content in checks.texts_of(result):
        assert "\x00" not in content


@every_strategy
@fast
@given(histories(), requests)
def test_the_order_of_rows_does_not_matter(
    strategy: str, log: Log, more: dict[str, Any]
) -> None:
    """I30: rows in whatever order the store hands them out."""
    request, result = build(log, strategy, **more)
    mixed = assemble(replace(request, messages=shuffled(request.messages)))
    assert result_document(mixed) == result_document(result)


@pytest.mark.parametrize(
    "strategy", [case for case in CASES if name_of(case) != "coalesced"]
)
@fast
@given(histories(), st.one_of(st.none(), summaries), st.data())
def test_appending_keeps_the_prefix(
    strategy: str, log: Log, summary: Summary | None, data: st.DataObject
) -> None:
    """I25: without a compaction, a longer log begins as the shorter one did."""
    options = window_options(strategy, 10_000)
    if summary is not None:  # none that was asked for covers the newest unit
        newest = newest_head(log.done(), "openai")
        most = newest.id - 1 if newest is not None else 0
        summary = replace(summary, through_id=min(summary.through_id, most))
    more: dict[str, Any] = {"budget": ROOMY, "options": options, "summary": summary}
    _, before = build(log, strategy, **more)
    assume(before.messages)
    log.user(data.draw(st.sampled_from(["Go on.", "次"])))
    _, after = build(log, strategy, **more)
    for event in ("masked", "superseded") if strategy != "snapshot-window" else ():
        assume(after.stats[event] == before.stats[event])
    tail = {entry.position for entry in before.synthetic if entry.kind == "nudge"}
    stable = [m for i, m in enumerate(before.messages) if i not in tail]
    assert after.messages[: len(stable)] == stable


@pytest.mark.parametrize("strategy", ["summary:eager", "summary:two", "tiered:eager"])
@fast
@given(histories(), st.integers(1, 5))
def test_summaries_cover_everything_once(strategy: str, log: Log, step: int) -> None:
    """I22: spans follow one another, and what is told in one was in its request."""
    rows = [
        replace(row, content=f"{row.content} #{row.id}#", pinned=row.pinned)
        for row in log.done()
    ]
    known: Summary | None = None
    told, reduced = "", set[int]()
    for end in range(step, len(rows) + step, step):
        part = Log(rows[:end])
        _, result = build(part, strategy, budget=ROOMY, summary=known)
        shown = [entry.kind for entry in result.synthetic].count("summary")
        assert shown == (known is not None and result.messages != [])
        for line in result.ledger:
            if line.disposition in ("masked", "superseded", "truncated"):
                reduced.add(line.id)  # a tier before: it is told as a note, or not
            if line.disposition == "summarized":
                assert f"#{line.id}#" in told or line.id in reduced
                assert known is not None
                assert line.id <= known.through_id
        wanted = result.summary_wanted
        if wanted is None:
            continue
        first = known.through_id if known is not None else 0
        assert first < wanted.first_id <= wanted.last_id <= rows[:end][-1].id
        stored = {row.id for row in rows[:end]}
        assert {wanted.first_id, wanted.last_id} <= stored
        request = json.dumps(wanted.request)
        assert request.count("[Summary ") == (known is not None)
        told += request
        generation = known.generation + 1 if known is not None else 1
        known = Summary(wanted.last_id, "Told.", generation)


#: Where the part of the coalesced message begins that a turn may change.
CHANGING = ("\n\n;; Tool calls made:", "\n\n;; Output:", "\n\n;; Error:")
FIXED: dict[str, Any] = {
    "mission": "Mine iron.",
    "tools": {"mine": "n:int -> ore"},
    "data": {"map": [1, 2]},
    "definitions": {"home": "sol"},
}


@fast
@given(histories(), st.integers(0, 3), st.booleans())
def test_a_coalesced_message_keeps_its_prefix(
    log: Log, limit: int, is_error: bool
) -> None:
    """I25 for `coalesced`: a turn without a new order changes nothing before the calls.

    A new order stands after the mission, so it moves all behind that (I17, A28).
    While there are fewer calls than are shown, their lines only grow as well.
    """
    more: dict[str, Any] = {"budget": ROOMY, "system": "You are Ada.", **FIXED}
    _, before = build(log, "coalesced", options={"tool_call_limit": limit}, **more)
    log.turn("mine", "ore", is_error=is_error)
    _, after = build(log, "coalesced", options={"tool_call_limit": limit}, **more)
    assume(before.messages)
    assert after.messages[0] == before.messages[0]
    one, two = (result.messages[1]["content"] for result in (before, after))
    assert two.startswith(stable_part(one))
    assert 'home                             ; = "sol"' in stable_part(one)
    if after.stats["compression"]["tool_calls_total"] <= limit:
        calls = one[len(stable_part(one)) :].partition("\n\n;; Output:")[0]
        if calls.startswith(CHANGING[0]):
            assert two.startswith(stable_part(one) + calls.partition(CHANGING[2])[0])


def stable_part(text: str) -> str:
    begin = text.index(";; === user/")
    ends = [text.find(mark, begin) for mark in CHANGING]
    return text[: min((end for end in ends if end >= 0), default=len(text))]


@every_strategy
@fast
@given(histories(), requests)
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
    assert result_document(moved) == result_document(result)


@fast
@given(valid_histories(), st.sampled_from([None, "You are Ada."]))
def test_full_is_the_identity_on_a_valid_log(log: Log, system: str | None) -> None:
    """repair(valid) = valid, and nothing is left out."""
    request, result = build(log, "full", budget=ROOMY, system=system)
    expected = [{"role": "system", "content": system}] if system else []
    for message in request.messages:
        wire: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.tool_calls:
            wire["content"] = message.content or None
            wire["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in message.tool_calls
            ]
        if message.role == "tool":
            wire["tool_call_id"] = message.tool_call_id
        expected.append(wire)
    assert result.messages == expected
    assert result.status == "unchanged"
