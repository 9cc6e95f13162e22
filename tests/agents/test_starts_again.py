"""What is sent once an order has ended, and what a start makes of it."""

from __future__ import annotations

from typing import Any

import pytest

from agents.actions import start_mysis, stop_mysis
from agents.actions.messages import CARRY_ON, deliver_broadcast, send_broadcast
from agents.actions.orders import change_order
from agents.context_inputs import STANDING_MISSION, preview_context, read_inputs
from agents.models import Mysis, Order, OrderRecipient
from memory.context.types import DEFAULT_STRATEGY
from memory.models import Memory
from tests.agents.test_context_inputs import answer_all, order
from tests.factories import make_memory, make_mysis

pytestmark = pytest.mark.django_db
BY = "operator:ann"


@pytest.fixture
def ada() -> Mysis:
    """An idle Mysis whose one order is done."""
    mysis = make_mysis(name="Ada")
    given = order(mysis, "Dock, and hold there.")
    answer_all(mysis)
    make_memory(mysis, role="assistant", origin="agent", content="I am docked.")
    change_order(order=given, by="mysis:Ada", state="done")
    Mysis.objects.filter(pk=mysis.pk).update(state="idle")
    mysis.refresh_from_db()
    return mysis


def read_words(mysis: Mysis) -> list[str]:
    """The messages of people to it."""
    rows = Memory.objects.filter(mysis=mysis, origin="human").order_by("pk")
    return list(rows.values_list("content", flat=True))


def view(mysis: Mysis, strategy: str) -> list[Any]:
    return preview_context(mysis, strategy=strategy).assembly.messages


@pytest.mark.parametrize(
    "strategy", ["full", "window", "summary", DEFAULT_STRATEGY, "coalesced"]
)
def test_after_a_start_no_view_ends_with_the_finished_order(
    ada: Mysis, strategy: str
) -> None:
    started = start_mysis(mysis=ada, by=BY)
    assert started.state == "running"
    sent = str(view(started, strategy))
    assert sent.rfind(CARRY_ON) > sent.rfind("Dock, and hold there.")


def test_after_a_start_a_finished_first_order_is_no_mission(ada: Mysis) -> None:
    assert read_inputs(ada).choose_mission()[0] == "Dock, and hold there."
    start_mysis(mysis=ada, by=BY)
    ada.refresh_from_db()
    assert read_inputs(ada).choose_mission()[0] == CARRY_ON
    ada.heard = Memory.objects.latest("pk").pk
    assert read_inputs(ada).choose_mission() == (STANDING_MISSION, None)
    [user] = [m for m in view(ada, "coalesced") if m["role"] == "user"]
    assert user["content"].startswith(STANDING_MISSION)


def test_a_start_says_so_once_and_only_where_the_newest_order_has_ended(
    ada: Mysis,
) -> None:
    start_mysis(mysis=ada, by=BY)
    assert read_words(ada) == ["Dock, and hold there.", CARRY_ON]
    assert Order.objects.count() == 1
    stop_mysis(mysis=ada, by=BY)
    start_mysis(mysis=ada, by=BY)
    assert len(read_words(ada)) == 2
    order(ada, "Mine.")
    stop_mysis(mysis=ada, by=BY)
    start_mysis(mysis=ada, by=BY)
    assert len(read_words(ada)) == 3, "an open order is gone on with"
    stop_mysis(mysis=ada, by=BY)
    start_mysis(mysis=ada, by=BY, clear_orders=True)
    assert read_words(ada)[3:] == [CARRY_ON]
    fresh = make_mysis(name="Brahe")
    start_mysis(mysis=fresh, by=BY)
    assert read_words(fresh) == []


def test_a_broadcast_that_has_ended_is_no_latest_word() -> None:
    ada = make_mysis(name="Ada", state="running")
    brahe = make_mysis(name="Brahe", state="running")
    sent = send_broadcast(text="All ships hold.", by=BY)
    deliver_broadcast(sent.pk)
    late = make_mysis(name="Late")
    given = Order.objects.get(broadcast=sent)
    words = [read_inputs(one).broadcast for one in (ada, brahe, late)]
    assert words == ["All ships hold."] * 3
    change_order(order=given, by=BY, state="done", mysis=ada)
    words = [read_inputs(one).broadcast for one in (ada, brahe, late)]
    assert words == [None, "All ships hold.", "All ships hold."]
    change_order(order=given, by=BY, state="done", mysis=brahe)
    assert [read_inputs(one).broadcast for one in (brahe, late)] == [None, None]
    assert OrderRecipient.objects.filter(mysis=late).count() == 0
