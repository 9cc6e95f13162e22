"""What a context depends on beside its log, read in one statement."""

from __future__ import annotations

import pytest

from agents import statements
from agents.context_inputs import read_inputs
from memory.models import Memory
from tests.factories import make_mysis

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
    assert (found.open_orders, found.oldest_order) == ((), "")
    assert found.first_order == (row.pk, "Mine.")
