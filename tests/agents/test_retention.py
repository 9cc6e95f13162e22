"""prune: what goes after some days, and what never goes."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from io import StringIO
from typing import Any

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models import F
from django.utils import timezone

from agents import events, retention
from agents.context_inputs import preview_context
from agents.events import Kind
from agents.models import Event, ModelCall, Mysis, Pin, Replay, ReplayCall, Turn
from bench.processes import database_url
from memory.assembly.prepare import record_call
from memory.assembly.sent_view import render_sent
from memory.models import ContextText, GameSnapshot, HistorySummary, Memory, SentContext
from tests.factories import make_memory, make_mysis, make_turn

pytestmark = pytest.mark.django_db

AGO = timedelta(days=30)


def aged(*rows: Any) -> None:
    """Let rows be thirty days old."""
    for row in rows:
        for field in ("created_at", "started_at"):
            if hasattr(row, field):
                type(row).objects.filter(pk=row.pk).update(**{field: F(field) - AGO})


def prune(*words: str, days: int = 7) -> dict[str, int]:
    out = StringIO()
    call_command("prune", *words, f"--keep-days={days}", stdout=out)
    lines = (line.split(": ") for line in out.getvalue().splitlines())
    return {what: int(said.split()[0]) for what, said in lines}


def ids(rows: Iterable[Memory]) -> set[int]:
    return {row.pk for row in rows}


def left() -> set[int]:
    return set(Memory.objects.values_list("pk", flat=True))


def spoken(mysis: Mysis, number: int, **values: Any) -> list[Memory]:
    return [
        make_memory(mysis, role="assistant", content=f"said {n}", **values)
        for n in range(number)
    ]


def call_made(mysis: Mysis, turn: Turn) -> SentContext:
    prepared = preview_context(mysis)
    call = ModelCall.objects.create(
        turn=turn, number=turn.calls.count() + 1, model="pilot"
    )
    return record_call(call_id=call.pk, prepared=prepared)


def ended(mysis: Mysis) -> Turn:
    return make_turn(mysis, outcome="done")


def test_old_messages_go_and_new_ones_stay() -> None:
    ada, bob = make_mysis(), make_mysis()
    old, new = spoken(ada, 5) + spoken(bob, 2), spoken(ada, 3)
    aged(*old)
    assert prune("--dry-run")["messages"] == 7
    assert left() == ids(old + new)
    assert prune()["messages"] == 7
    assert left() == ids(new)
    assert prune()["messages"] == 0


def test_the_newest_order_and_its_answer_stay() -> None:
    """I17, A15."""
    ada = make_mysis()
    first = make_memory(ada, content="an older order")
    order = make_memory(ada, content="mine iron")
    answer, *rest = spoken(ada, 3)
    aged(first, order, answer, *rest)
    prune()
    assert left() == {order.pk, answer.pk}


def test_a_result_is_never_parted_from_its_call() -> None:
    ada = make_mysis()
    gone = spoken(ada, 2)
    call = {"id": "c", "function": {"name": "mine", "arguments": "{}"}}
    speech = make_memory(ada, role="assistant", tool_calls=[call])
    early = make_memory(ada, role="tool", tool_call_id="c")
    late = make_memory(ada, role="tool", tool_call_id="d")
    aged(*gone, speech, early)
    prune()
    assert left() == ids([speech, early, late])


def test_what_the_summary_in_use_needs_stays() -> None:
    ada = make_mysis()
    older, span, after = spoken(ada, 3), spoken(ada, 3), spoken(ada, 2)
    aged(*older, *span, *after)
    HistorySummary.objects.create(
        mysis=ada,
        first_id=older[0].pk,
        through_id=older[-1].pk,
        generation=1,
        text="old",
        status="replaced",
        history_hash="x",
    )
    active = HistorySummary.objects.create(
        mysis=ada,
        first_id=span[0].pk,
        through_id=span[-1].pk,
        generation=2,
        text="new",
        history_hash="x",
    )
    aged(active)
    Pin.objects.create(mysis=ada, text="never attack miners")
    prune()
    assert left() == ids(span + after)
    assert HistorySummary.objects.count() == 2
    assert Pin.objects.exists()


def test_an_open_turn_keeps_what_is_its_own() -> None:
    ada = make_mysis()
    before = spoken(ada, 2)
    opened = make_turn(ada)
    mine = spoken(ada, 2, turn=opened)
    waiting = make_memory(make_mysis(), role="tool", pending=True, content="")
    aged(*before, *mine, opened, waiting)
    found = prune()
    assert found["turns"] == 0
    assert left() == ids([*mine, waiting])


def test_turns_go_with_their_calls_and_the_last_one_stays() -> None:
    ada = make_mysis()
    spoken(ada, 1)
    turns = [ended(ada) for _ in range(3)]
    for turn in turns[:2]:
        call_made(ada, turn)
    aged(*turns)
    assert prune()["turns"] == 1
    # The newest, and the newest whose call is on record: the next view needs it.
    assert set(Turn.objects.values_list("pk", flat=True)) == {t.pk for t in turns[1:]}
    assert ModelCall.objects.count() == SentContext.objects.count() == 1


def test_what_a_kept_call_was_sent_can_still_be_shown() -> None:
    ada = make_mysis()
    first = spoken(ada, 2)
    make_memory(ada, content="go")
    sent = call_made(ada, ended(ada))
    aged(*Memory.objects.all())
    HistorySummary.objects.all().delete()
    spoken(ada, 1)
    prune()
    assert ids(first) <= left()
    assert render_sent(SentContext.objects.get(pk=sent.pk)).intact


def test_what_stands_behind_a_joined_message_stays() -> None:
    """Also where the ids are kept as a list, as all were once."""
    ada = make_mysis()
    first = spoken(ada, 4)
    sent = call_made(ada, ended(ada))
    sources = [None, first[0].pk, [first[1].pk, first[2].pk]]
    SentContext.objects.filter(pk=sent.pk).update(view=sent.view | {"sources": sources})
    aged(*Memory.objects.all())
    spoken(ada, 1)
    prune()
    assert left() & ids(first) == ids(first[:3])


def test_texts_go_when_no_call_names_them_any_more() -> None:
    ada = make_mysis()
    ada.prompt = None
    make_memory(ada, content="go")
    ContextText.objects.create(digest="0" * 64, text="nobody's")
    old, new = ended(ada), ended(ada)
    call_made(ada, old)
    aged(old)
    named = set(ContextText.objects.exclude(text="nobody's").values_list("pk"))
    assert named
    call_made(ada, new)
    assert prune("--dry-run")["context texts"] == 1
    assert prune()["context texts"] == 1
    assert set(ContextText.objects.values_list("pk")) == named
    sent = SentContext.objects.get()
    assert render_sent(sent).intact


def test_a_text_that_a_call_names_meanwhile_stays() -> None:
    ada = make_mysis()
    make_memory(ada, content="go")
    call_made(ada, ended(ada))
    SentContext.objects.all().delete()
    texts = retention.find_unnamed_texts([])
    assert texts.digests
    sent = call_made(ada, ended(ada))
    assert sum(texts.remove()) == len(texts.digests)
    assert render_sent(sent).intact


def test_events_and_cleared_snapshots_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    for _ in range(5):
        events.append(Kind.ERROR, data={})
    aged(*Event.objects.all())
    events.append(Kind.ERROR, data={})
    now = timezone.now()
    for tool, out in (("a", now - AGO), ("b", now), ("c", None)):
        GameSnapshot.objects.create(
            username="Ada", tool_name=tool, captured_at=now - AGO, logged_out_at=out
        )
    found = prune()
    assert (found["events"], found["cleared snapshots"]) == (5, 1)
    assert Event.objects.count() == 1
    tools = GameSnapshot.objects.order_by("tool_name").values_list("tool_name")
    assert [tool for (tool,) in tools] == ["b", "c"]


def test_replays_go_after_their_calls_in_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    over, running = (
        Replay.objects.create(until=timezone.now(), by="ann", state=state)
        for state in (Replay.State.DONE, Replay.State.RUNNING)
    )
    Replay.objects.filter(pk=over.pk).update(finished_at=timezone.now() - AGO)
    for replay in (over, running):
        for place in range(1, 4):
            ReplayCall.objects.create(
                replay=replay, place=place, call_id=1, mysis_id=1, turn_id=1,
                turn_number=1, call_number=1, at=timezone.now(),
            )  # fmt: skip
    removed = prune()
    assert removed["calls of finished replays"] == 3
    assert removed["finished replays"] == 1
    assert Replay.objects.get() == running
    assert ReplayCall.objects.filter(replay=running).count() == 3


@pytest.mark.parametrize("value", ["-1", "x", "", "36501", "1" * 5000])
def test_bad_days_are_refused(value: str) -> None:
    with pytest.raises(CommandError, match="keep-days"):
        call_command("prune", f"--keep-days={value}")


@pytest.mark.django_db(transaction=True)
def test_a_call_that_is_being_recorded_is_waited_for() -> None:
    """A text is not removed while a transaction is about to name it."""
    ContextText.objects.create(digest="0" * 64, text="kept again")
    texts = retention.find_unnamed_texts([])
    with psycopg.connect(database_url()) as other:
        other.execute(
            "INSERT INTO memory_contexttext VALUES (%s, 'x') ON CONFLICT DO NOTHING",
            ["0" * 64],
        )
        with pytest.raises(Exception, match="lock timeout"):
            _removed_within(texts, "200ms")
    assert ContextText.objects.exists()
    assert sum(texts.remove()) == 1
    assert not ContextText.objects.exists()


def _removed_within(texts: retention.Texts, limit: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SET lock_timeout = '{limit}'")
        try:
            list(texts.remove())
        finally:
            cursor.execute("SET lock_timeout = 0")
