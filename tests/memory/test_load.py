"""Which rows an assembly is given: enough, never all, from a place that seldom moves."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.models import Mysis
from memory.assembly import history_summaries
from memory.assembly import load as assembly_load
from memory.assembly.hashes import hash_span
from memory.assembly.log_rows import read_span, to_messages
from memory.assembly.prepare import Subject, prepare_request
from memory.context.registry import list_names
from memory.context.types import Budget
from memory.models import HistorySummary, Memory
from tests.factories import (
    make_call,
    make_memory,
    make_mysis,
    make_sent,
)

pytestmark = pytest.mark.django_db

SMALL = Budget(2_000, 200)
MOST = assembly_load.compute_row_limit(SMALL)


def load(
    mysis: Mysis, strategy: str, summary: HistorySummary | None = None
) -> assembly_load.LoadedTail:
    return assembly_load.load_tail(
        assembly_load.TailRequest(mysis.pk, strategy, None, SMALL, summary)
    )


def fill(mysis: Mysis, number: int) -> None:
    rows = [
        Memory(mysis=mysis, role="assistant", origin="agent", content=f"said {n}")
        for n in range(number)
    ]
    Memory.objects.bulk_create(rows)


def remember(subject: Subject) -> tuple[int, ...]:
    """Record the next call, as a turn does; the ids that it was given."""
    prepared = prepare_request(subject)
    mysis = Mysis.objects.get(pk=subject.mysis_id)
    make_sent(mysis, prepared)
    return tuple(message.id for message in prepared.request.messages)


def summarised(mysis: Mysis, first: int, through: int) -> HistorySummary:
    """Commit a summary, as a turn does."""
    before = history_summaries.read_newest_summary(mysis.pk)
    generation = before.generation if before else 0
    span = history_summaries.Span(mysis.pk, first, through, generation, "")
    rows = read_span(mysis.pk, first, through)
    digest = hash_span(to_messages(rows))
    return history_summaries.commit_summary(
        replace(span, digest=digest),
        text="All went well.",
        tokens=(100, 3),
        effort=history_summaries.Effort(1, "m"),
    )


def test_a_window_reads_the_newest_rows_and_the_newest_order():
    mysis = make_mysis()
    order = make_memory(mysis, content="Never sell titanium.")
    fill(mysis, assembly_load.TAIL_ROWS + 50)
    loaded = load(mysis, "window")
    assert len(loaded.messages) == assembly_load.TAIL_ROWS + 1
    assert loaded.messages[0].id == order.pk
    assert loaded.start == loaded.messages[1].id


@pytest.mark.parametrize("strategy", ["full", "mask", "summary", "tiered", "coalesced"])
def test_the_others_read_every_row_up_to_a_limit(strategy: str):
    mysis = make_mysis()
    fill(mysis, MOST - 1)
    assert len(load(mysis, strategy).messages) == MOST - 1
    fill(mysis, 1)
    assert len(load(mysis, strategy).messages) == MOST // 2


@pytest.mark.parametrize("strategy", ["window", "tiered"])
def test_the_calls_of_a_turn_read_on_what_reading_anew_would_give(strategy: str):
    mysis = make_mysis()
    make_memory(mysis, content="Never sell titanium.")
    call = make_call("mine")
    fill(mysis, assembly_load.TAIL_ROWS - 5)
    wish = assembly_load.TailRequest(mysis.pk, strategy, None, SMALL)
    reads = assembly_load.load_tail(wish)
    for number in range(12):
        make_memory(mysis, role="assistant", content="", tool_calls=[call])
        result = make_memory(mysis, role="tool", tool_call_id="c", pending=True)
        if number == 8:
            make_memory(mysis, content="Sell it after all.")
        reads = assembly_load.load_tail(wish, reads)
        Memory.objects.filter(pk=result.pk).update(content="ore", pending=False)
        reads = assembly_load.load_tail(wish, reads)
        anew = assembly_load.load_tail(wish)
        assert (reads.messages, reads.start) == (anew.messages, anew.start)
        assert list(reads.rows) == list(anew.rows)


def hear_peer(mysis: Mysis) -> Memory:
    return make_memory(mysis, content="[From Mysis Bob] Hello.", sender="mysis:Bob")


@pytest.mark.parametrize("strategy", list_names())
def test_a_message_of_another_mysis_does_not_displace_the_newest_order(strategy: str):
    mysis = make_mysis()
    order = make_memory(mysis, content="Never sell titanium.", sender="operator:ann")
    fill(mysis, MOST + 5)
    hear_peer(mysis)
    loaded = load(mysis, strategy)
    assert loaded.messages[0].id == order.pk
    assert [row.pk for row in loaded.rows.values() if row.is_order] == [order.pk]


@pytest.mark.parametrize("strategy", ["window", "tiered"])
def test_a_message_of_another_mysis_in_mid_turn_does_not_either(strategy: str):
    mysis = make_mysis()
    order = make_memory(mysis, content="Never sell titanium.", sender="operator:ann")
    fill(mysis, assembly_load.TAIL_ROWS - 5)
    wish = assembly_load.TailRequest(mysis.pk, strategy, None, SMALL)
    reads = assembly_load.load_tail(wish)
    for _ in range(12):
        hear_peer(mysis)
        fill(mysis, 1)
        reads = assembly_load.load_tail(wish, reads)
        anew = assembly_load.load_tail(wish)
        assert (reads.messages, reads.start) == (anew.messages, anew.start)
        assert reads.messages[0].id == order.pk


def test_a_full_window_is_not_read_again_within_a_turn():
    mysis = make_mysis()
    fill(mysis, assembly_load.TAIL_ROWS + 5)
    wish = assembly_load.TailRequest(mysis.pk, "window", None, SMALL)
    reads = assembly_load.load_tail(wish)
    fill(mysis, 3)
    with CaptureQueriesContext(connection) as queries:
        more = assembly_load.load_tail(wish, reads)
    assert len(queries) == 1
    assert more.messages[0] is reads.messages[3]


def test_every_strategy_says_what_it_reads():
    assert {assembly_load.find_reads(name) for name in list_names()} == {
        "newest",
        "log",
        "unsummarized",
    }
    assert assembly_load.find_reads("gone") == "newest"


def test_the_place_where_reading_begins_stays_until_the_limit_is_reached():
    """I25, I26: past the limit, a call goes on from where the one before began."""
    mysis = make_mysis()
    order = make_memory(mysis, content="An order far back.")
    fill(mysis, MOST + 10)
    subject = Subject(mysis.pk, "x", None, strategy="full", budget=SMALL)
    first = remember(subject)
    fill(mysis, 5)
    second = remember(subject)
    assert first[0] == second[0] == order.pk
    assert second[: len(first)] == first
    assert len(second) == len(first) + 5
    fill(mysis, MOST)
    assert remember(subject)[1] > second[-1]


def test_what_a_summary_covers_is_not_read_but_its_order_and_answer():
    """L5, A15: the order stands at the end of the summary, done or pending."""
    mysis = make_mysis()
    fill(mysis, 5)
    order = make_memory(mysis, content="Dock now.")
    make_memory(mysis, role="assistant", content="Docked.")
    through = make_memory(mysis, role="assistant", content="And more.")
    after = make_memory(mysis, role="assistant", content="Later.")
    summary = summarised(mysis, order.pk - 5, through.pk)
    ids = [message.id for message in load(mysis, "tiered", summary).messages]
    assert ids == [order.pk, order.pk + 1, after.pk]
    assert (summary.order_id, summary.answer_id) == (order.pk, order.pk + 1)
    prepared = prepare_request(Subject(mysis.pk, "x", None, strategy="tiered"))
    block = prepared.assembly.messages[0]["content"]
    assert "All went well." in block
    assert block.endswith("Last request from user was: Dock now.")
    assert "done unless" in block


def test_a_strategy_without_summaries_reads_past_them():
    mysis = make_mysis()
    fill(mysis, 5)
    newest = Memory.objects.latest("pk")
    summary = summarised(mysis, newest.pk - 4, newest.pk)
    assert len(load(mysis, "mask", summary).messages) == 5


def test_a_result_is_never_read_without_its_call():
    mysis = make_mysis()
    calls = [make_call("x", "", call_id=f"c{n}") for n in range(MOST)]
    make_memory(mysis, role="assistant", content="", tool_calls=calls)
    for call in calls:
        make_memory(mysis, role="tool", tool_call_id=call["id"])
    assert load(mysis, "full").messages[0].role == "assistant"
    assert load(mysis, "window").messages[0].role == "assistant"


def test_an_order_is_carried_from_summary_to_summary_until_it_is_answered():
    mysis = make_mysis()
    order = make_memory(mysis, content="Dock now.")
    calls = [make_call("x", "")]
    for _ in range(3):
        make_memory(mysis, role="assistant", content="Calling.", tool_calls=calls)
    first = summarised(mysis, order.pk, order.pk + 2)
    assert (first.order_id, first.answer_id) == (order.pk, None)
    answer = make_memory(mysis, role="assistant", content="Docked.")
    make_memory(mysis, role="assistant", content="More.")
    second = summarised(mysis, order.pk + 3, answer.pk)
    assert (second.order_id, second.answer_id) == (order.pk, answer.pk)


def test_after_a_summary_is_taken_back_its_history_is_read_again():
    """I22: nothing falls between a summary that is gone and the next call's start."""
    mysis = make_mysis()
    fill(mysis, 20)
    newest = Memory.objects.latest("pk").pk
    subject = Subject(mysis.pk, "x", None, strategy="tiered", budget=SMALL)
    summarised(mysis, newest - 19, newest - 10)
    row = summarised(mysis, newest - 9, newest - 4)
    assert remember(subject) == tuple(range(newest - 3, newest + 1))
    history_summaries.revert_summary(row, turn=1)
    assert remember(subject) == tuple(range(newest - 9, newest + 1))
    assert [s.generation for s in mysis.summaries.filter(status="active")] == [1]


def test_an_order_from_far_back_is_in_no_span_and_what_was_not_read_is_told():
    """I22: the span begins where reading does, so that it can be committed."""
    mysis = make_mysis()
    order = make_memory(mysis, content="Never sell titanium.")
    fill(mysis, MOST + 10)
    options = {"threshold": 1, "keep_recent": 2, "max_summary_tokens": 100}
    subject = Subject(
        mysis.pk, "x", None, strategy="summary", budget=SMALL, options=options
    )
    prepared = prepare_request(subject)
    wanted = prepared.assembly.summary_wanted
    assert wanted is not None
    assert order.pk < wanted.first_id == prepared.loaded.start
    assert "were not read" in prepared.assembly.warnings[-1]
    row = summarised(mysis, wanted.first_id, wanted.last_id)
    assert row.order_id == order.pk
    after = prepare_request(subject)
    assert "titanium" in str(after.assembly.messages)


def heavy(mysis: Mysis, number: int, size: int = 400_000) -> None:
    """Rows of which a few have more bytes than a small budget ever needs."""
    for n in range(number):
        text = f"{n} " + "x" * size
        make_memory(mysis, role="assistant", content=text)


@pytest.mark.parametrize("strategy", list_names())
def test_bytes_are_bounded_like_rows(strategy: str):
    mysis = make_mysis()
    order = make_memory(mysis, content="Never sell titanium.")
    heavy(mysis, 12)
    loaded = load(mysis, strategy)
    read = sum(len(message.content) for message in loaded.messages)
    assert read <= assembly_load.compute_byte_limit(SMALL)
    assert loaded.messages[0].id == order.pk
    assert loaded.messages[-1].content.startswith("11 ")
    assert loaded.cut == (assembly_load.find_reads(strategy) != "newest")


def test_one_row_over_all_bounds_is_read_and_nothing_else():
    mysis = make_mysis()
    heavy(mysis, 1, assembly_load.compute_byte_limit(SMALL) + 1)
    heavy(mysis, 1, assembly_load.compute_byte_limit(SMALL) + 1)
    assert len(load(mysis, "tiered").messages) == 1


@pytest.mark.parametrize("strategy", ["window", "tiered"])
def test_no_result_is_read_without_its_call(strategy: str):
    mysis = make_mysis()
    heavy(mysis, 4)
    names = [
        {"id": f"c{n}", "function": {"name": "get_map", "arguments": "{}"}}
        for n in range(9)
    ]
    call = make_memory(mysis, role="assistant", tool_calls=names, content="")
    for n in range(9):
        text = "x" * 400_000
        make_memory(mysis, role="tool", tool_call_id=f"c{n}", content=text)
    loaded = load(mysis, strategy)
    assert loaded.start == call.pk


def test_what_is_cut_by_bytes_begins_at_a_steady_place():
    mysis = make_mysis()
    heavy(mysis, 12)
    subject = Subject(mysis.pk, "Ada", None, strategy="tiered", budget=SMALL)
    first = remember(subject)
    make_memory(mysis, role="assistant", content="small")
    assert remember(subject)[: len(first)] == first
