"""Which rows an assembly is given: enough, never all, from a place that seldom moves."""

from __future__ import annotations

import pytest

from agents.models import ModelCall, Mysis
from memory import sent, tail
from memory.context.registry import names
from memory.context.types import Budget, Summary
from memory.models import HistorySummary, Memory
from memory.preview import Subject, prepare
from tests.factories import make_memory, make_mysis, make_turn

pytestmark = pytest.mark.django_db

SMALL = Budget(2_000, 200)
MOST = tail.most_rows(SMALL)


def load(mysis: Mysis, strategy: str, summary: Summary | None = None) -> tail.Tail:
    return tail.load(
        mysis.pk, strategy=strategy, window=None, budget=SMALL, summary=summary
    )


def fill(mysis: Mysis, number: int) -> None:
    rows = [
        Memory(mysis=mysis, role="assistant", origin="agent", content=f"said {n}")
        for n in range(number)
    ]
    Memory.objects.bulk_create(rows)


def remember(subject: Subject) -> tuple[int, ...]:
    """Record the next call, as a turn does; the ids that it was given."""
    prepared = prepare(subject)
    mysis = Mysis.objects.get(pk=subject.mysis_id)
    call = ModelCall.objects.create(turn=make_turn(mysis), number=1, model="m")
    sent.record(call_id=call.pk, prepared=prepared)
    return tuple(message.id for message in prepared.request.messages)


def summarised(mysis: Mysis, through: int, generation: int = 1) -> Summary:
    HistorySummary.objects.create(
        mysis=mysis,
        first_id=1,
        through_id=through,
        generation=generation,
        text="All went well.",
        history_hash="x",
    )
    return Summary(through, "All went well.", generation)


def test_a_window_reads_the_newest_rows_and_the_newest_order():
    mysis = make_mysis()
    order = make_memory(mysis, content="Never sell titanium.")
    fill(mysis, tail.TAIL_ROWS + 50)
    loaded = load(mysis, "window")
    assert len(loaded.messages) == tail.TAIL_ROWS + 1
    assert loaded.messages[0].id == order.pk
    assert loaded.start == loaded.messages[1].id


@pytest.mark.parametrize("strategy", ["full", "mask", "summary", "tiered", "coalesced"])
def test_the_others_read_every_row_up_to_a_limit(strategy: str):
    mysis = make_mysis()
    fill(mysis, MOST - 1)
    assert len(load(mysis, strategy).messages) == MOST - 1
    fill(mysis, 1)
    assert len(load(mysis, strategy).messages) == MOST // 2


def test_every_strategy_says_what_it_reads():
    assert {tail.reads_of(name) for name in names()} == {
        "newest",
        "log",
        "unsummarized",
    }
    assert tail.reads_of("gone") == "newest"


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


def test_another_strategy_begins_for_itself():
    mysis = make_mysis()
    fill(mysis, 10)
    subject = Subject(mysis.pk, "x", None, strategy="window", budget=SMALL)
    remember(subject)
    assert len(load(mysis, "full").messages) == 10


def test_what_a_summary_covers_is_not_read_but_its_order_and_answer():
    """L5, A15: the order stands at the end of the summary, done or pending."""
    mysis = make_mysis()
    fill(mysis, 5)
    order = make_memory(mysis, content="Dock now.")
    fill(mysis, 1)
    answer = make_memory(mysis, role="assistant", content="Docked.")
    through = make_memory(mysis, role="assistant", content="And more.")
    after = make_memory(mysis, role="assistant", content="Later.")
    summary = summarised(mysis, through.pk)
    ids = [message.id for message in load(mysis, "tiered", summary).messages]
    assert ids == [order.pk, answer.pk - 1, after.pk]
    prepared = prepare(Subject(mysis.pk, "x", None, strategy="tiered"))
    block = prepared.assembly.messages[0]["content"]
    assert "All went well." in block
    assert block.endswith("Last request from user was: Dock now.")
    assert "done unless" in block


def test_a_strategy_without_summaries_reads_past_them():
    mysis = make_mysis()
    fill(mysis, 5)
    newest = Memory.objects.latest("pk")
    summary = summarised(mysis, newest.pk)
    assert len(load(mysis, "mask", summary).messages) == 5


def test_a_result_is_never_read_without_its_call():
    mysis = make_mysis()
    calls = [
        {"id": f"c{n}", "type": "function", "function": {"name": "x", "arguments": ""}}
        for n in range(MOST)
    ]
    make_memory(mysis, role="assistant", content="", tool_calls=calls)
    for call in calls:
        make_memory(mysis, role="tool", tool_call_id=call["id"])
    assert load(mysis, "full").messages[0].role == "assistant"
    assert load(mysis, "window").messages[0].role == "assistant"
