"""The pages of orders: who may tick, what is listed, and what cannot be."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from agents.actions import orders
from agents.actions.messages import send_order
from agents.dashboard.orders import load_lines, load_order
from agents.models import Broadcast, Mysis, Order
from agents.order_status import read_order
from tests.factories import make_mysis

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def fleet() -> list[Mysis]:
    return [make_mysis(name=name, state="running") for name in ("Ada", "Bo", "Xeno")]


def sign_in(name: str, *, is_staff: bool) -> Client:
    user = User.objects.create_user(name, is_staff=is_staff)
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def operator_client() -> Client:
    return sign_in("helm", is_staff=True)


@pytest.fixture
def viewer_client() -> Client:
    return sign_in("reader", is_staff=False)


def give(fleet: list[Mysis], text: str = "Return to base.") -> int:
    sent, _ = send_order(myses=fleet, text=text, by="operator:ann")
    return sent.pk


def test_the_composer_gives_orders(fleet: list[Mysis], operator_client: Client) -> None:
    old = give(fleet)
    sent = {"text": "Mine.", "to": str(fleet[0].pk), "clear": "1"}
    operator_client.post("/send/", sent)
    operator_client.post("/send/", {"text": "Home.", "to": ""})
    one, many = Order.objects.filter(pk__gt=old).order_by("pk")
    assert (one.text, one.to) == ("Mine.", {"myses": [fleet[0].pk]})
    assert many.broadcast == Broadcast.objects.get()
    found = read_order(old)
    assert found is not None
    assert [each.state for each in found.recipients] == [
        "superseded", "queued", "queued",
    ]  # fmt: skip


def test_the_words_and_the_bar_say_the_same(fleet: list[Mysis]) -> None:
    give(fleet)
    orders.report_order(mysis=fleet[0], number=None, status="done")
    Mysis.objects.filter(name="Xeno").update(state="errored", last_error="Lost: all.")
    [line] = load_lines()
    assert line.said == "3 sent, 1 shown, 1 done, 1 never will: errored Xeno"
    assert [(part.state, part.count) for part in line.bar] == [
        ("done", 1), ("queued", 2),
    ]  # fmt: skip
    assert round(sum(part.width for part in line.bar)) == 100
    assert line.whom == "Ada, Bo, Xeno"
    Mysis.objects.all().delete()
    [line] = load_lines()
    assert (line.said, line.bar) == ("reached nobody", ())


def test_pages_list_orders_and_each_ones_part(
    fleet: list[Mysis], viewer_client: Client
) -> None:
    empty = viewer_client.get("/orders/").content.decode()
    assert "stands here until everybody has done it" in " ".join(empty.split())
    numbers = [give(fleet, f"Order <{n}>.") for n in range(52)]
    page = viewer_client.get("/orders/").content.decode()
    assert "Order &lt;51&gt;." in page
    assert f"before={numbers[2]}" in page
    older = viewer_client.get(f"/orders/?before={numbers[2]}").content.decode()
    assert "Order &lt;1&gt;." in older
    assert "Order &lt;2&gt;." not in older
    none = viewer_client.get("/orders/?state=done").content.decode()
    assert "No such order." in none
    own = viewer_client.get(f"/orders/{numbers[0]}/").content.decode()
    assert all(mysis.name in own for mysis in fleet)
    names = viewer_client.get(f"/orders/{numbers[0]}/names/").content.decode()
    assert "Xeno" in names
    for wrong in ("99999", str(2**70)):
        assert viewer_client.get(f"/orders/{wrong}/").status_code == 404
        assert viewer_client.get(f"/orders/{wrong}/names/").status_code == 404


def test_operators_tick_and_viewers_do_not(
    fleet: list[Mysis], operator_client: Client, viewer_client: Client
) -> None:
    number = give(fleet)
    path = f"/orders/{number}/change/"
    viewer_client.post(path, {"state": "done"})
    loaded = load_order(number)
    assert loaded is not None
    assert loaded[0].order.state == "queued"
    operator_client.post(f"{path}?mysis={fleet[1].pk}", {"state": "not_done"})
    operator_client.post(path, {"state": "done"})
    found = read_order(number)
    assert found is not None
    assert [each.state for each in found.recipients] == ["done", "not_done", "done"]
    for wrong in ({"state": "lost"}, {}):
        answer = operator_client.post(path, wrong, headers={"HX-Request": "true"})
        assert answer.status_code == 422
        assert b"state: one of" in answer.content
