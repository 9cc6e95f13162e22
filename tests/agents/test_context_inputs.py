"""What a context depends on beside its log, read in one statement."""

from __future__ import annotations

import pytest

from agents import statements
from agents.actions.messages import finish_shown, record_shown, send_order
from agents.actions.orders import change_order
from agents.context_inputs import read_inputs
from agents.models import Mysis, Order, OrderRecipient
from memory.models import Memory
from tests.factories import make_mysis, make_turn

pytestmark = pytest.mark.django_db


def test_of_more_orders_than_a_view_has_use_for_the_newest_are_known() -> None:
    mysis, other = make_mysis(), make_mysis()
    sent = [
        Memory(mysis=owner, role="user", origin="human", content=f"Order {n}.")
        for n in range(statements.MOST_OPEN_ORDERS + 50)
        for owner in (mysis, other)
    ]
    ids = [row.pk for row in Memory.objects.bulk_create(sent) if row.mysis == mysis]
    mysis.heard = ids[9]
    found = read_inputs(mysis)
    assert found.open_orders == (*ids[50:],)
    assert found.choose_mission() == ("Order 50.", ids[50])
    mysis.heard = ids[99]
    found = read_inputs(mysis)
    assert found.open_orders == (*ids[100:],)
    assert found.choose_mission() == ("Order 100.", ids[100])


def test_one_that_heard_every_order_has_none_open() -> None:
    mysis = make_mysis()
    sent = Memory(mysis=mysis, role="user", origin="human", content="Mine.")
    [row] = Memory.objects.bulk_create([sent])
    mysis.heard = row.pk
    found = read_inputs(mysis)
    assert (found.open_orders, found.mission_order) == ((), None)
    assert found.first_order == (row.pk, "Mine.", False)


def order(mysis: Mysis, text: str) -> Order:
    sent, _ = send_order(myses=[mysis], text=text, by="operator:ann")
    return sent


def answer_all(mysis: Mysis) -> None:
    """As a turn does that was shown all of its orders and ends by itself."""
    parts = OrderRecipient.objects.filter(mysis=mysis, shown_at=None)
    ids = [row.memory_id or 0 for row in parts.order_by("memory_id")]
    record_shown(mysis, ids, ids, turn=(make_turn(mysis).pk, 1), call=1)
    finish_shown(ids)


def test_the_mission_is_the_oldest_order_without_an_answer_else_the_newest() -> None:
    """One that is never reported does not stand before what it was told since."""
    ada = make_mysis(name="Ada")
    first, second = order(ada, "First."), order(ada, "Second.")
    assert read_inputs(ada).choose_mission()[0] == "First."
    answer_all(ada)
    assert read_inputs(ada).choose_mission()[0] == "Second."
    third = order(ada, "Third.")
    order(ada, "Fourth.")
    found = read_inputs(ada)
    assert found.choose_mission()[0] == "Third."
    assert len(found.open_orders) == 4, "all are told"
    change_order(order=third, by="operator:ann", state="done")
    assert read_inputs(ada).choose_mission()[0] == "Fourth."
    for ended in (first, second):
        change_order(order=ended, by="operator:ann", state="superseded")
    answer_all(ada)
    assert read_inputs(ada).choose_mission()[0] == "Fourth."


def test_the_newest_orders_are_named_and_the_one_that_is_the_mission() -> None:
    ada = make_mysis(name="Ada")
    numbers = [order(ada, f"Order {n}.").pk for n in range(4)]
    answer_all(ada)
    numbers += [order(ada, f"Order {n}.").pk for n in range(4, 11)]
    found = read_inputs(ada).reportable
    assert found.total == 11
    named = [numbers[4], *numbers[6:]]
    assert [number for number, _ in found.named] == named
    assert found.named[0][1] == "Order 4."
    answer_all(ada)
    assert [number for number, _ in read_inputs(ada).reportable.named] == numbers[6:]
