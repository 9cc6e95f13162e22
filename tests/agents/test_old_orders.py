"""What was sent before there were orders, once they are there."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace

import pytest
from django.apps import apps
from django.db import connection

from agents.actions.orders import explain_superseded
from agents.models import Broadcast, Delivery, Mysis, Order, OrderRecipient
from agents.order_status import read_order
from memory.models import Memory
from tests.factories import make_memory, make_mysis, make_turn

pytestmark = pytest.mark.django_db


def test_what_was_not_answered_before_the_upgrade_becomes_an_order() -> None:
    """What was answered long ago is none, and nothing is lost."""
    ada, bo, cy = (make_mysis(name=name) for name in ("Ada", "Bo", "Cy"))
    heard = make_memory(ada, content="Old.", sender="operator:ann")
    Mysis.objects.filter(pk=ada.pk).update(heard=heard.pk, turn_count=5)
    make_memory(ada, content="Hi.", sender="mysis:Bo")
    mine = make_memory(ada, content="Mine.", sender="operator:ann")
    cast = Broadcast.objects.create(text="Home.", sender="token:ci", group="miners")
    told = [
        make_memory(
            one, broadcast=cast, origin="broadcast", content="Home.", sender="x"
        )
        for one in (bo, cy)
    ]
    Mysis.objects.filter(pk__in=[bo.pk, cy.pk]).update(heard=told[1].pk)
    for row, done_at in zip(told, (None, cast.created_at), strict=True):
        Delivery.objects.create(
            memory=row, mysis=row.mysis, turn=make_turn(row.mysis), turn_number=1,
            call_number=1, done_at=done_at,
        )  # fmt: skip
    upgrade = import_module("agents.migrations.0019_orders").make_orders
    upgrade(apps, SimpleNamespace(connection=connection))
    first, second = (read_order(order.pk) for order in Order.objects.order_by("pk"))
    assert first is not None
    assert second is not None
    assert (first.text, first.to, first.state) == (
        "Mine.",
        {"myses": [ada.pk]},
        "queued",
    )
    assert (first.recipients[0].memory_id, first.recipients[0].turns) == (mine.pk, 0)
    assert first.created_at == mine.created_at
    assert (second.text, second.to) == ("Home.", {"group": "miners"})
    assert [one.state for one in second.recipients] == ["shown", "answered"]
    assert Memory.objects.count() == 5


def test_by_which_order_one_was_replaced_is_read_from_its_note() -> None:
    """Not from what a person wrote, nor from one that is in another state."""
    order = Order.objects.create(text="Go.", sender="operator:ann", to={})
    notes = {
        explain_superseded(7): "superseded",
        f"{explain_superseded(8)} So it is.": "superseded",
        "": "superseded",
        explain_superseded(9): "done",
    }
    for note, state in notes.items():
        OrderRecipient.objects.create(
            order=order, mysis=make_mysis(), state=state, note=note
        )
    upgrade = import_module("agents.migrations.0029_order_replaced_by")
    with connection.cursor() as cursor:
        cursor.execute(upgrade._FROM_NOTES)
    found = OrderRecipient.objects.order_by("pk").values_list("replaced_by", flat=True)
    assert list(found) == [7, None, None, None]
