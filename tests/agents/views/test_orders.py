"""The pages of orders: who may tick, what is listed, and what cannot be."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from agents import actions, events
from agents.actions import orders
from agents.actions.messages import send_order
from agents.dashboard import feed
from agents.dashboard.live.fragments import draw_newest_orders
from agents.dashboard.orders import load_lines, load_order
from agents.models import Broadcast, Mysis, Order, OrderRecipient
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
    assert f'aria-label="Not done: order {numbers[0]}"' in names
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
        assert b"state: " in answer.content


def read_feed() -> list[tuple[str, str, str]]:
    """Who did what, and where it leads, newest first."""
    return [
        (line.name, line.text, line.link) for line in feed.load_newest_feed("orders")
    ]


def test_the_feed_tells_each_word_on_an_order_in_one_line(
    fleet: list[Mysis], operator_client: Client
) -> None:
    first = give(fleet)
    order, link = Order.objects.get(pk=first), f"/orders/{first}/"
    orders.report_order(
        mysis=fleet[0], number=first, status="working", note="60 of 100."
    )
    assert read_feed() == [
        ("Ada", "works on: Return to base: 60 of 100.", link),
        ("", "order to 3: Return to base.", link),
    ]
    orders.change_order(order=order, by="operator:ann", note="Soon.")
    orders.change_order(order=order, by="operator:ann", state="done", mysis=fleet[0])
    orders.change_order(order=order, by="operator:ann", state="open", mysis=fleet[0])
    orders.change_order(order=order, by="operator:ann", state="not_done")
    orders.change_order(order=order, by="operator:ann", state="open")
    assert [(name, text) for name, text, _ in read_feed()[:5]] == [
        ("", "order open again (by ann): Return to base"),
        ("", "order not done (by ann): Return to base"),
        ("Ada", "order open again (by ann): Return to base: Soon."),
        ("Ada", "order done (by ann): Return to base: Soon."),
        ("", "note on order (by ann): Return to base: Soon."),
    ]
    told = events.read_after(0, kinds=["order.changed"])
    live = [line.text for line in feed.make_news_lines(told)]
    assert live == [text for _, text, _ in read_feed()], "as over the socket"


def test_what_is_replaced_or_cleared_at_once_is_one_line(fleet: list[Mysis]) -> None:
    for number in range(3):
        give(fleet, f"Order {number}.")
    count = len(read_feed())
    actions.send_broadcast(text="Home.", by="operator:ann", supersedes=True)
    cast = Order.objects.latest("pk")
    assert len(read_feed()) == count + 1
    assert read_feed()[0] == (
        "", "broadcast to 3 in place of what was open: Home.", f"/orders/{cast.pk}/",
    )  # fmt: skip
    send_order(myses=fleet, text="Mine.", by="operator:ann", supersedes=True)
    assert read_feed()[0][1] == "order to 3 in place of what was open: Mine."
    assert len(read_feed()) == count + 2
    Mysis.objects.update(state="stopped")
    for _ in range(2):
        old = Order.objects.create(text="Old.", sender="operator:ann")
        OrderRecipient.objects.create(order=old, mysis=fleet[0])
    actions.start_mysis(mysis=fleet[0], by="operator:ann", clear_orders=True)
    assert len(read_feed()) == count + 2
    [line, *_] = feed.load_newest_feed("states")
    assert line.text == "running (by ann), 3 orders cleared"


def test_a_tick_carries_a_note(fleet: list[Mysis], operator_client: Client) -> None:
    number = give(fleet)
    page = operator_client.get(f"/orders/{number}/").content.decode()
    assert 'name="note"' in page
    path = f"/orders/{number}/change/"
    sent = {"state": "not_done", "note": " The belt is gone. "}
    operator_client.post(f"{path}?mysis={fleet[0].pk}", sent)
    operator_client.post(path, {"state": "done", "note": " "})
    parts = OrderRecipient.objects.filter(order=number).order_by("mysis_id")
    assert [(one.state, one.note) for one in parts] == [
        ("not_done", "The belt is gone."), ("done", ""), ("done", ""),
    ]  # fmt: skip
    # Alone it leaves the states as they are.
    assert "Keep the note only" in page
    told = operator_client.post(
        f"{path}?mysis={fleet[0].pk}",
        {"note": "Look again."},
        headers={"HX-Request": "true"},
    )
    assert f"Order {number} has your note for Ada." in told.content.decode()
    row = OrderRecipient.objects.get(mysis=fleet[0])
    assert (row.state, row.note) == ("not_done", "Look again.")
    long = {"state": "open", "note": "x" * 1001}
    refused = operator_client.post(path, long, headers={"HX-Request": "true"})
    assert (refused.status_code, b"note:" in refused.content) == (422, True)
    page = operator_client.get(f"/orders/{number}/").content.decode()
    assert "never shown to it" in page


def test_a_script_is_told_from_a_model_until_it_is_talked_to(
    fleet: list[Mysis],
) -> None:
    def is_told() -> bool:
        return "a script flies these ships" in draw_newest_orders().html

    assert is_told()
    Mysis.objects.filter(pk=fleet[0].pk).update(model="openai:any")
    assert not is_told(), "one is flown by a model"
    Mysis.objects.update(model="openai:any")
    assert not is_told()
    Mysis.objects.update(model="pilot:forgetful")
    assert is_told()
    give(fleet)
    assert not is_told()


def test_nobody_is_flown_by_a_script_where_there_is_nobody(db: None) -> None:
    assert "a script flies" not in draw_newest_orders().html
