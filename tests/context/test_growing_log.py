"""What becomes of a view while its log grows."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from memory.context.assemble import EarlierWork, assemble
from memory.context.types import AssemblyRequest, Budget, Summary
from tests.context.cases import (
    CASES,
    DIALECTS,
    ROOMY,
    build,
    fast,
    name_of,
    newest_head,
    only_if,
    options_of,
    requests,
    summaries,
    window_options,
    with_each,
)
from tests.context.histories import Log, histories


@fast
@given(histories(), st.one_of(st.none(), summaries), st.sampled_from(["Go on.", "次"]))
@with_each(*(case for case in CASES if name_of(case) != "coalesced"))
def test_appending_keeps_the_prefix(
    strategy: str, log: Log, summary: Summary | None, order: str
) -> None:
    """I25: without a compaction, a longer log begins as the shorter one did."""
    options = window_options(strategy, 10_000)
    if summary is not None:  # none that was asked for covers the newest unit
        newest = newest_head(log.done(), "openai")
        most = newest.id - 1 if newest is not None else 0
        summary = replace(summary, through_id=min(summary.through_id, most))
    more: dict[str, Any] = {"budget": ROOMY, "options": options, "summary": summary}
    _, before = build(log, strategy, **more)
    longer = replace(log, messages=[*log.messages])
    longer.user(order)
    _, after = build(longer, strategy, **more)
    reduced = ("masked", "superseded") if strategy != "snapshot-window" else ()
    only_if(all(after.stats[event] == before.stats[event] for event in reduced))
    tail = {entry.position for entry in before.synthetic if entry.kind == "nudge"}
    stable = [m for i, m in enumerate(before.messages) if i not in tail]
    if stable and stable[-1]["role"] == "user":  # the order is joined to it
        *stable, last = stable
        joined = after.messages[len(stable)]
        assert str(joined["content"]).startswith(f"{last['content']}\n\n")
    assert after.messages[: len(stable)] == stable


@fast
@given(
    histories(),
    requests,
    st.integers(1, 9),
    st.integers(1, 12),
    st.sampled_from(DIALECTS),
)
@with_each(*CASES, each_dialect=False)
def test_a_view_that_goes_on_from_an_earlier_one_is_as_if_made_anew(
    strategy: str, log: Log, more: dict[str, Any], new: int, size: int, dialect: Any
) -> None:
    """I2: what the calls of a turn have in common changes nothing, whatever came."""
    options = options_of(strategy) | window_options(strategy, size)
    rows, earlier, previous = log.done(), EarlierWork(), None
    other = (replace(rows[-1], content="Another."),) if rows else ()
    logs = (rows[:-new], rows[:-1], rows, rows[1:], (*rows[1:-1], *other), rows)
    for messages in logs:
        request = AssemblyRequest(
            messages, strategy=name_of(strategy), options=options, previous=previous
        )
        request = replace(request, dialect=dialect, **more)
        anew = assemble(request, EarlierWork())
        assert assemble(request, earlier) == anew
        previous = anew.messages


def test_what_changes_beside_the_log_changes_the_next_view() -> None:
    """Policies of tools, caps, calibration and whose log it is hold for old rows too."""
    log, earlier = Log(), EarlierWork()
    log.turn("get_ship", "ship " * 90)
    log.turn("login", '{"token": "quite-secret"}')
    log.user("Go on.")
    first = AssemblyRequest(log.done(), options={"window": 3}, strategy="window")
    for more in (
        {},
        {"options": {"window": 9, "result_cap": 30}},
        {"tool_policy": {"login": "secret"}},
        {"calibration": 2.0},
        {"mysis": "other", "options": {"window": 1}},
        {"dialect": "anthropic"},
        {"counter": "chars"},
    ):
        request = replace(first, **more)
        assert assemble(request, earlier) == assemble(request, EarlierWork())


@pytest.mark.parametrize(
    "changes",
    [
        ({"system": "You fly."}, {"system": None}, {"system": "You fly."}),
        ({"budget": Budget(60_000)}, {"budget": Budget(40_000)}, {}),
        ({}, {"options": {"hi": 0.9, "lo": 0.1, "min_tokens": 1}}, {}),
        ({"pins": ("Mine.",)}, {"pins": ()}, {"strategy": "mask"}),
    ],
)
def test_a_log_that_is_cut_goes_on_whatever_changes(
    changes: tuple[dict[str, Any]],
) -> None:
    log, earlier = Log(), EarlierWork()
    log.prompt("Stored.")
    log.user("Mine.")
    for _ in range(20):
        log.turn("mine", "ore " * 4000)
        log.says("Aye.")
        log.user("More.")
    for change in changes:
        request = AssemblyRequest(log.done(), strategy="tiered", budget=Budget(60_000))
        request = replace(request, **change)
        assert assemble(request, earlier) == assemble(request, EarlierWork())


@fast
@given(histories(), st.integers(1, 5))
@with_each("summary:eager", "summary:two", "tiered:eager")
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
        # Schemas that were asked for stand there until their turn is over.
        if calls.startswith(CHANGING[0]) and "game_help(" not in calls:
            assert two.startswith(stable_part(one) + calls.partition(CHANGING[2])[0])


def stable_part(text: str) -> str:
    begin = text.index(";; === user/")
    ends = [text.find(mark, begin) for mark in CHANGING]
    return text[: min((end for end in ends if end >= 0), default=len(text))]
