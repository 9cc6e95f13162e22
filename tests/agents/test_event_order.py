"""Ids have the order of commits, so who follows them by the last one seen misses none.

An id is drawn when a row is stored and seen when that is committed. Whoever stores a
row first waits for the lock that goes with its list, and holds it until the commit: so
as long as somebody else holds it, no id may be drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest
from django.db import OperationalError, connection, transaction

from agents import actions, manual_command
from agents.actions import messages
from agents.events import get_connection_parameters
from agents.llm.model_types import Completion
from agents.models import ModelCall, Mysis
from agents.runtime import answers
from agents.runtime.model_calls import Opened
from agents.runtime.turn_rows import TurnHandle
from agents.usage import CallPlace, today
from memory.assembly import history_summaries
from memory.assembly.history_summaries import Effort, Span
from memory.models import HistorySummary
from memory.transfer.in_out import store_lines
from memory.transfer.line import TransferMessage
from tests.factories import make_mysis, make_turn

pytestmark = pytest.mark.django_db(transaction=True)
Write = Callable[[Mysis], object]


def message(mysis: Mysis) -> object:
    return actions.send_message(mysis=mysis, text="Go.", by="test")


def broadcast(mysis: Mysis) -> object:
    with transaction.atomic():
        sent = actions.send_broadcast(text="All.", by="test")
        return messages._deliver_batch(sent.pk, wait=True)


def command(mysis: Mysis) -> object:
    return manual_command._begin(mysis, "get_status", {}, "test")


def answer(mysis: Mysis) -> object:
    turn = make_turn(mysis)
    begun = TurnHandle(turn.pk, mysis.pk, mysis.epoch, 1, "start", "pilot", {}, 10)
    call = ModelCall.objects.create(turn=turn, number=1, model="pilot")
    place = CallPlace(call.pk, mysis.pk, today(), "", "pilot")
    return answers.store_answer(begun, Opened(place), Completion("Going."), 0)


def imported(mysis: Mysis) -> object:
    return store_lines(
        mysis.pk, [TransferMessage("user", "human", content="From before.")]
    )


def summarized(mysis: Mysis) -> object:
    span = Span(mysis.pk, 1, 2, 0, "")
    return history_summaries.record_failure(span, error="no", effort=Effort(1, "pilot"))


@contextmanager
def impatient() -> Iterator[None]:
    """Waiting for a lock is given up at once."""
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '20ms'")
        yield
        cursor.execute("SET lock_timeout = 0")


def drawn(table: str) -> int:
    """The last id drawn, also by who gave up later."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT last_value, is_called FROM {table}_id_seq")  # noqa: S608
        last, called = cursor.fetchone() or (0, False)
    return int(last) if called else 0


@pytest.mark.parametrize("write", [message, broadcast, command, answer, imported])
def test_who_writes_into_a_log_waits_before_an_id_is_drawn(write: Write) -> None:
    mysis = make_mysis(state=Mysis.State.RUNNING)
    before = drawn("memory_memory")
    with psycopg.connect(**get_connection_parameters()) as other:
        other.execute(
            "SELECT 1 FROM agents_mysis WHERE id = %s FOR NO KEY UPDATE", [mysis.pk]
        )
        with impatient(), pytest.raises(OperationalError, match="lock timeout"):
            write(mysis)
        assert drawn("memory_memory") == before
    write(mysis)
    assert drawn("memory_memory") > before


def test_summaries_of_the_whole_fleet_are_stored_one_after_the_other() -> None:
    first, second = make_mysis(), make_mysis()
    before = drawn("memory_historysummary")
    with psycopg.connect(**get_connection_parameters()) as other:
        other.execute(history_summaries.IN_TURN)
        with impatient(), pytest.raises(OperationalError, match="lock timeout"):
            summarized(first)
        assert drawn("memory_historysummary") == before
    summarized(second)
    assert HistorySummary.objects.count() == 1


def test_a_summary_s_place_is_held_until_its_commit() -> None:
    with transaction.atomic():
        summarized(make_mysis())
        with psycopg.connect(**get_connection_parameters()) as other:
            other.execute("SET lock_timeout = '20ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                other.execute(history_summaries.IN_TURN)
