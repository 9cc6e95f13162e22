"""What a next call is made from: the tail of the log, whole units, the intent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents import context_inputs
from agents.models import ModelCall, Mysis
from memory.assembly import turn_reads
from memory.assembly.hashes import hash_view
from memory.assembly.load import TAIL_ROWS
from memory.assembly.prepare import Subject, prepare_request, record_call
from memory.assembly.sent_view import render_sent
from memory.assembly.turn_reads import TurnReads
from memory.context.offered_tools import offer_tools
from memory.context.types import Budget
from memory.gamestate.extract import read_result
from memory.models import GameSnapshot, Memory, SentContext, fetch_rows
from memory.snapshots.reads import READ_PER_TOOL, read_account_state
from memory.snapshots.writes import KEPT_PER_TOOL, capture_snapshot
from tests.factories import make_call, make_memory, make_mysis, make_turn

pytestmark = pytest.mark.django_db


def called(mysis: Mysis, results: int) -> None:
    calls = [make_call("get_base", call_id=f"c{n}") for n in range(results)]
    make_memory(mysis, role="assistant", content="", tool_calls=calls)
    for item in calls:
        make_memory(mysis, role="tool", tool_call_id=item["id"], content="{}")


def test_an_answer_with_very_many_calls_keeps_its_call():
    mysis = make_mysis()
    called(mysis, TAIL_ROWS + 30)
    prepared = prepare_request(context_inputs.build_subject(mysis))
    assert prepared.request.messages[0].role == "assistant"
    assert "assistant" in {m["role"] for m in prepared.assembly.messages}


def test_the_cost_does_not_grow_with_the_history():
    mysis = make_mysis()
    subject = context_inputs.vary_subject(
        context_inputs.build_subject(mysis), strategy="window"
    )
    make_memory(mysis)
    for _ in range(TAIL_ROWS):
        make_memory(mysis, role="assistant", content="aye")
    few = count_queries(subject)
    for _ in range(TAIL_ROWS * 3):
        make_memory(mysis, role="assistant")
    assert count_queries(subject) == few
    assert len(prepare_request(subject).request.messages) <= TAIL_ROWS + 1


def count_queries(subject: Subject) -> int:
    with CaptureQueriesContext(connection) as queries:
        prepare_request(subject)
    return len(queries)


def test_the_same_input_gives_the_same_digest_and_another_budget_another():
    mysis = make_mysis()
    for number in range(30):
        make_memory(mysis, content=f"message {number} " * 50)
    first = context_inputs.preview_context(mysis)
    again = context_inputs.preview_context(mysis)
    assert first.digest == again.digest == hash_view(first.assembly.messages)
    small = context_inputs.preview_context(mysis, budget=Budget(2_000, 500))
    assert small.digest != first.digest
    stats, fewer = first.assembly.stats, small.assembly.stats
    assert fewer["tokens_out"] < stats["tokens_out"]


def test_a_tool_asked_with_ever_new_arguments_costs_no_more():
    mysis = make_mysis()
    answer = read_result('{"item": 1}')
    for number in range(KEPT_PER_TOOL + 5):
        capture_snapshot(
            username="Ada",
            tool="view_market",
            args={"item_id": number},
            text='{"item": 1}',
            result=answer,
        )
    assert GameSnapshot.objects.count() == KEPT_PER_TOOL
    assert len(read_account_state("Ada").snapshots) == KEPT_PER_TOOL
    newest = read_account_state("Ada", newest_only=True).snapshots
    assert len(newest) == READ_PER_TOOL
    assert {s.args["item_id"] for s in newest} >= {KEPT_PER_TOOL + 4}
    assert (
        prepare_request(context_inputs.build_subject(mysis)).assembly.messages
        is not None
    )


def test_a_turn_goes_on_from_the_call_before_and_sees_whatever_changed():
    mysis = make_mysis()
    rows = [make_memory(mysis, content=f"message {number}") for number in range(9)]
    call_in_turn(mysis)
    reader = turn_reads._works[mysis.pk].earlier.reader
    make_memory(mysis, content="more")
    call_in_turn(mysis)
    assert turn_reads._works[mysis.pk].earlier.reader is reader
    Memory.objects.filter(pk=rows[4].pk).update(content="edited")
    call_in_turn(mysis)
    rows[2].delete()
    call_in_turn(mysis)
    assert turn_reads._works[mysis.pk].earlier.reader is not reader


def call_in_turn(mysis: Mysis) -> None:
    """Prepare and record the first call of a turn; a preview must give the same."""
    subject = context_inputs.build_subject(mysis)
    preview, reads = prepare_request(subject), TurnReads()
    prepared = prepare_request(subject, reads=reads)
    same = [replace(each.assembly, stats={}) for each in (prepared, preview)]
    assert same[0] == same[1]
    assert prepared.digest == preview.digest == hash_view(preview.assembly.messages)
    call = ModelCall.objects.create(turn=make_turn(mysis), number=1, model="m")
    record_call(call_id=call.pk, prepared=prepared, reads=reads)


def test_no_text_is_stored_again_with_a_later_call(monkeypatch: pytest.MonkeyPatch):
    """Counted is what is given to the database: it drops what it has by itself."""
    given: list[int] = []
    store = fetch_rows

    def watch(sql: str, values: Any, **more: Any) -> Any:
        given.append(sum(map(len, values[1])))
        return store(sql, values, **more)

    monkeypatch.setattr("memory.assembly.prepare.fetch_rows", watch)
    mysis, about = make_mysis(), "Dig. " * 200
    schema = {"type": "object", "properties": {}}
    tools = [
        {"name": f"dig_{n}", "description": about, "parameters": schema}
        for n in range(20)
    ]
    for turn in range(5):
        if turn == 3:
            turn_reads._works.clear()  # as in another worker
        if turn == 4:
            tools = tools[1:]
        make_memory(mysis, content=f"message {turn}")
        made, reads = make_turn(mysis), TurnReads()
        for number in (1, 2):
            subject = replace(
                context_inputs.build_subject(mysis),
                offered=offer_tools(tools, "full", None),
            )
            prepared = prepare_request(subject, reads=reads)
            call = ModelCall.objects.create(turn=made, number=number, model="m")
            record_call(call_id=call.pk, prepared=prepared, reads=reads)
    first, *middle, changed, last = given
    assert first > 20 * len(about)
    assert 19 * len(about) < changed < first
    assert {*middle, last} == {0}
    kept = SentContext.objects.order_by("pk")
    assert [render_sent(sent).intact for sent in kept] == [True] * 10


def test_a_turn_goes_on_from_its_own_last_call_where_there_is_no_room(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(turn_reads, "_works", {})
    monkeypatch.setattr(turn_reads, "_MOST_KEPT", 0)
    mysis = make_mysis()
    make_memory(mysis, content="Mine.")
    subject, reads = context_inputs.build_subject(mysis), TurnReads()
    first = prepare_request(subject, reads=reads)
    work = reads.work
    assert turn_reads._works == {}
    again = prepare_request(subject, reads=reads)
    assert reads.work is work
    assert again.assembly.messages == first.assembly.messages


def test_what_is_kept_for_later_turns_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(turn_reads, "_works", {})
    monkeypatch.setattr(turn_reads, "_MOST_KEPT", 40_000)
    monkeypatch.setattr(turn_reads, "_ROUNDS", 2)
    first, second, third = (make_mysis() for _ in range(3))
    for mysis in (first, second, third):
        make_memory(mysis, content="message " * 500)
    # Who takes turns with others keeps its place ...
    for mysis in (first, second, third) * 2:
        call_in_turn(mysis)
    assert list(turn_reads._works) == [first.pk, second.pk]
    # ... and one that takes none any more loses it.
    for mysis in (first, third) * 3:
        call_in_turn(mysis)
    assert list(turn_reads._works) == [first.pk, third.pk]
