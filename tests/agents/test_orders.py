"""Orders over REST: given, listed, ticked; who may, and what is refused."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from agents import actions, events
from agents.actions import messages, orders
from agents.actions.base import ActionError
from agents.db import fetch_row
from agents.events import Kind
from agents.models import Broadcast, Mysis, Order, OrderRecipient
from agents.order_status import STATES, read_order
from agents.retention import find_old_messages, plan_steps
from agents.runtime import recovery
from memory.models import Memory
from tests.factories import make_mysis, make_turn
from tests.programs import Program

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def operator() -> Program:
    return Program("operator", name="helm")


@pytest.fixture
def fleet() -> list[Mysis]:
    """Three that listen, of whom two mine, and one that does not."""
    ada, bo = (make_mysis(name=name, group="miners") for name in ("Ada", "Bo"))
    return [ada, bo, make_mysis(name="Cy", tags=["scout"]), _errored("Xeno")]


def _errored(name: str) -> Mysis:
    return make_mysis(name=name, state="errored", last_error="No such model.")


def give(operator: Program, **to: Any) -> dict[str, Any]:
    answer = operator.post("/orders", {"text": "Return to base.", "to": to})
    assert answer.status_code == 201, answer.content
    found: dict[str, Any] = answer.json()
    return found


def states(order: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["state"] for each in order["recipients"]}


def told(kind: Kind = Kind.ORDER_CHANGED) -> list[Any]:
    lines = events.read_after(0, kinds=[kind])
    return [(line["mysis"], line["data"]) for line in lines]


@pytest.mark.parametrize(
    ("to", "names"),
    [
        ({"fleet": True}, ["Ada", "Bo", "Cy"]),
        ({"group": "miners"}, ["Ada", "Bo"]),
        ({"tag": "scout"}, ["Cy"]),
        ({"myses": ["Ada", "Cy", "Ada"]}, ["Ada", "Cy"]),
    ],
)
def test_an_order_goes_to_whom_it_names(
    to: dict[str, Any], names: list[str], fleet: list[Mysis], operator: Program
) -> None:
    given = give(operator, **to)
    assert states(given) == dict.fromkeys(names, "queued")
    assert (given["state"], given["sender"]) == ("queued", "token:helm")
    assert given["counts"]["sent"] == len(names)
    assert [row.content for row in Memory.objects.all()] == ["Return to base."] * len(
        names
    )
    assert operator.get(f"/orders/{given['id']}").json() | {"refused": []} == given
    assert operator.get("/orders").json()["items"] == [
        operator.get(f"/orders/{given['id']}").json()
    ]
    [(_, data)] = told()
    assert (data["order"], data["state"]) == (given["id"], "queued")
    assert data["recipients"] == len(names)


def test_messages_and_broadcasts_are_orders_too(
    fleet: list[Mysis], operator: Program
) -> None:
    sent = operator.post("/myses/Ada/message", {"text": "Mine."}).json()
    cast = operator.post("/broadcasts", {"text": "Home.", "to": {"group": "miners"}})
    items = operator.get("/orders").json()["items"]
    assert [one["id"] for one in items] == [sent["order"], cast.json()["order"]]
    assert [one["text"] for one in items] == ["Mine.", "Home."]
    assert items[0]["recipients"][0]["memory_id"] == sent["id"]
    assert (items[1]["to"], items[1]["broadcast"]) == (
        {"group": "miners"}, cast.json()["id"],
    )  # fmt: skip
    found = operator.get("/myses/Ada/messages").json()["items"]
    assert [one["order"]["id"] for one in found] == [one["id"] for one in items]
    # What a Mysis says orders nobody.
    messages.send_message(mysis=fleet[0], text="Hi.", by="mysis:Bo")
    messages.send_broadcast(text="Hi all.", by="mysis:Bo", sender=fleet[1])
    assert Order.objects.count() == 2
    assert operator.get("/myses/Ada/messages").json()["items"][-1]["order"] is None


def test_an_order_is_summed_up_by_whoever_is_furthest_behind(
    fleet: list[Mysis], operator: Program
) -> None:
    number = give(operator, fleet=True)["id"]
    rows = list(OrderRecipient.objects.order_by("mysis_id"))
    steps = [
        (["shown", "queued", "answered"], "queued"),
        (["shown", "done", "answered"], "shown"),
        (["done", "done", "answered"], "answered"),
        (["done", "done", "not_done"], "not_done"),
        (["done", "superseded", "done"], "done"),
        (["superseded"] * 3, "superseded"),
    ]
    for each, summed in steps:
        for row, state in zip(rows, each, strict=True):
            OrderRecipient.objects.filter(pk=row.pk).update(state=state)
        found = operator.get(f"/orders/{number}").json()
        assert found["state"] == summed
        is_open = summed in ("queued", "shown", "answered")
        for state in STATES:
            listed = operator.get(f"/orders?state={state}").json()["items"]
            wanted = state == summed or (state == "open" and is_open)
            assert [one["id"] for one in listed] == [number] * wanted
    assert found["counts"] == {
        "sent": 3, "queued": 0, "shown": 0, "answered": 0, "done": 0, "not_done": 0,
        "superseded": 3, "overdue": 0, "never": 0,
    }  # fmt: skip
    Mysis.objects.all().delete()
    assert operator.get(f"/orders/{number}").json()["state"] == "not_done"


def test_an_operator_ticks_for_one_and_for_all(
    fleet: list[Mysis], operator: Program
) -> None:
    path = f"/orders/{give(operator, fleet=True)['id']}"
    one = operator.patch(path, {"state": "not_done", "note": "Lost.", "mysis": "Bo"})
    assert states(one.json()) == {"Ada": "queued", "Bo": "not_done", "Cy": "queued"}
    [bo] = [each for each in one.json()["recipients"] if each["name"] == "Bo"]
    assert (bo["note"], bo["changed_by"]) == ("Lost.", "token:helm")
    assert told()[-1][1] | {"text": ""} == {
        "order": one.json()["id"], "state": "not_done", "by": "token:helm",
        "text": "", "note": "Lost.",
    }  # fmt: skip
    # For all with whom it is open: what was said of Bo stays.
    every = operator.patch(path, {"state": "done"}).json()
    assert states(every) == {"Ada": "done", "Bo": "not_done", "Cy": "done"}
    assert every["state"] == "not_done"
    whole = told()[-1]
    assert (whole[0], whole[1]["recipients"]) == (None, 2)
    count = len(told())
    operator.patch(path, {"state": "done", "mysis": "Ada"})
    assert len(told()) == count, "nothing changed"
    # With nobody open it is said of all anew.
    assert states(operator.patch(path, {"state": "superseded"}).json()) == {
        "Ada": "superseded", "Bo": "superseded", "Cy": "superseded",
    }  # fmt: skip


def hear(row: OrderRecipient, *, answered: bool = True) -> None:
    """As a call does that has the message of an order, and the end of its turn."""
    told, turn = [row.memory_id or 0], make_turn(row.mysis).pk
    messages.record_shown(row.mysis, told, told, turn=(turn, 1), call=1)
    if answered:
        messages.finish_shown(told)


def test_what_was_said_is_taken_back(fleet: list[Mysis], operator: Program) -> None:
    path = f"/orders/{give(operator, group='miners')['id']}"
    ada, bo = OrderRecipient.objects.order_by("mysis_id")
    for row in (ada, bo):
        hear(row, answered=row is bo)
    operator.patch(path, {"state": "done"})
    back = operator.patch(path, {"state": "open"}).json()
    assert states(back) == {"Ada": "shown", "Bo": "answered"}


def test_whoever_has_an_order_again_wakes(
    fleet: list[Mysis], operator: Program
) -> None:
    path = f"/orders/{give(operator, fleet=True)['id']}"
    operator.patch(path, {"state": "done"})
    rows = Mysis.objects.filter(name__in=["Ada", "Bo"])
    rows.update(state="idle", nudges=3, next_job=None)
    Mysis.objects.filter(name="Cy").update(state="stopped", next_job=None)
    operator.patch(path, {"note": "Not so.", "mysis": "Bo"})
    assert Mysis.objects.get(name="Bo").state == "idle"
    operator.patch(path, {"state": "open"})
    ada, bo, cy = Mysis.objects.filter(name__in=["Ada", "Bo", "Cy"]).order_by("name")
    assert {one.state for one in (ada, bo)} == {"running"}
    assert all(one.next_job and one.nudges == 0 for one in (ada, bo))
    assert (cy.state, cy.next_job) == ("stopped", None)
    woken = [line for line in told(Kind.MYSIS_STATE) if line[1]["by"] == "token:helm"]
    assert [owner for owner, _ in woken[-2:]] == [ada.pk, bo.pk]
    assert [data["reopened"] for owner, data in told()[-4:] if owner] == [True] * 3
    job = ada.next_job
    operator.patch(path, {"state": "open", "note": "Still."})
    assert Mysis.objects.get(name="Ada").next_job == job, "it was open"


def test_who_was_shown_an_order_is_counted_by_when_and_not_by_a_tick(
    fleet: list[Mysis], operator: Program
) -> None:
    number = give(operator, group="miners")["id"]
    operator.patch(f"/orders/{number}", {"state": "done"})
    found = operator.get(f"/orders/{number}").json()
    assert (found["counts"]["done"], found["counts"]["shown"]) == (2, 0)
    count = len(told())
    ada, bo = OrderRecipient.objects.filter(order=number).order_by("mysis_id")
    hear(ada)
    assert len(told()) == count, "whoever ticked it has the last word"
    found = operator.get(f"/orders/{number}").json()
    assert (found["counts"]["done"], found["counts"]["shown"]) == (2, 1)
    first, second = found["recipients"]
    assert (first["state"], second["shown_at"]) == ("done", None)
    assert first["changed_by"] == "token:helm"
    assert first["shown_at"] <= first["answered_at"]
    # The nudge named it: who reports was told.
    operator.patch(f"/orders/{number}", {"state": "open"})
    report(bo.mysis, number, "done")
    assert operator.get(f"/orders/{number}").json()["counts"]["shown"] == 2


def test_a_bad_order_is_refused_in_one_sentence(
    fleet: list[Mysis], operator: Program
) -> None:
    for body, status, words in (
        ({"text": "", "to": {"fleet": True}}, 422, "text"),
        ({"text": " ", "to": {"fleet": True}}, 422, "is empty"),
        ({"text": "Go."}, 422, "to: "),
        ({"text": "Go.", "to": {}}, 422, "to: give one of"),
        ({"text": "Go.", "to": {"fleet": False}}, 422, "to.fleet: "),
        ({"text": "Go.", "to": {"fleet": True, "group": "miners"}}, 422, "to: "),
        ({"text": "Go.", "to": {"group": "nobody"}}, 422, "to: no Mysis has the"),
        ({"text": "Go.", "to": {"myses": []}}, 422, "to.myses: "),
        ({"text": "Go.", "to": {"myses": ["No"]}}, 422, "to.myses: there is no Mysis"),
        ({"text": "Go.", "to": {"myses": [True]}}, 422, "to.myses"),
        ({"text": "Go.", "to": {"myses": ["Xeno"]}}, 409, "Xeno is errored: No such"),
        ({"text": "Go.", "to": {"fleet": True}, "x": 1}, 422, "x: "),
    ):
        answer = operator.post("/orders", body)
        assert answer.status_code == status, answer.content
        assert words in answer.json()["detail"]
    assert (Order.objects.count(), Memory.objects.count()) == (0, 0)


def test_viewers_read_and_operators_write(fleet: list[Mysis]) -> None:
    viewer, operator = Program("viewer"), Program("operator", name="helm")
    body = {"text": "Go.", "to": {"fleet": True}}
    assert viewer.post("/orders", body).status_code == 403
    number = give(operator, fleet=True)["id"]
    assert viewer.get(f"/orders/{number}").status_code == 200
    assert viewer.patch(f"/orders/{number}", {"state": "done"}).status_code == 403
    assert viewer.get("/orders/99999").status_code == 404
    assert viewer.get("/orders/x").status_code == 404
    assert viewer.get("/orders?state=lost").status_code == 422
    assert operator.patch(f"/orders/{number}", {"state": "done"}).status_code == 200


def test_orders_are_listed_page_by_page(fleet: list[Mysis], operator: Program) -> None:
    numbers = [give(operator, myses=[name])["id"] for name in ("Ada", "Bo", "Ada")]
    first = operator.get("/orders?limit=2").json()
    assert [one["id"] for one in first["items"]] == numbers[:2]
    rest = operator.get(f"/orders?limit=2&cursor={first['next']}").json()
    assert ([one["id"] for one in rest["items"]], rest["next"]) == (numbers[2:], None)
    hers = operator.get("/orders?mysis=Ada").json()["items"]
    assert [one["id"] for one in hers] == [numbers[0], numbers[2]]


def test_some_who_are_named_do_not_get_it(
    fleet: list[Mysis], operator: Program
) -> None:
    given = give(operator, myses=["Ada", "Xeno"])
    assert states(given) == {"Ada": "queued"}
    assert given["refused"] == [
        "Xeno is errored: No such model. Start it, then send again."
    ]


def test_an_order_clears_what_its_recipients_have_open_where_it_says_so(
    fleet: list[Mysis], operator: Program
) -> None:
    old = give(operator, fleet=True)["id"]
    give(operator, group="miners")
    assert set(states(operator.get(f"/orders/{old}").json()).values()) == {"queued"}
    for to in ({"myses": ["Ada"]}, {"tag": "scout"}):
        body = {"text": "Instead.", "to": to, "supersede": True}
        newest = operator.post("/orders", body).json()["id"]
    found = operator.get(f"/orders/{old}").json()
    assert states(found) == {"Ada": "superseded", "Bo": "queued", "Cy": "superseded"}
    [cy] = [each for each in found["recipients"] if each["name"] == "Cy"]
    assert cy["note"] == f"Order {newest} took its place."
    assert set(states(operator.get(f"/orders/{newest}").json()).values()) == {"queued"}


def test_one_that_goes_on_without_a_report_is_overdue(
    fleet: list[Mysis], operator: Program, settings: Any
) -> None:
    settings.ZOEA_ORDER_TURNS = 3
    number = give(operator, group="miners")["id"]
    Mysis.objects.filter(name="Ada").update(turn_count=2)
    Mysis.objects.filter(name="Bo").update(turn_count=3, state="stopped")
    found = operator.get(f"/orders/{number}").json()
    ada, bo = found["recipients"]
    assert (ada["turns"], ada["overdue"], ada["never"]) == (2, False, None)
    assert (bo["turns"], bo["overdue"], bo["never"]) == (3, True, "stopped")
    assert (found["overdue"], found["counts"]["overdue"]) == (True, 1)
    assert found["counts"]["never"] == 1
    report(fleet[1], number, "working")
    assert not operator.get(f"/orders/{number}").json()["overdue"]
    Mysis.objects.filter(name="Ada").update(turn_count=9)
    operator.patch(f"/orders/{number}", {"state": "done", "mysis": "Ada"})
    assert not operator.get(f"/orders/{number}").json()["overdue"], "it has ended"


def test_one_that_begins_no_turn_is_overdue_by_time(
    fleet: list[Mysis], operator: Program
) -> None:
    """Held or idle, its turns do not count up."""
    number = give(operator, group="miners")["id"]
    late = timezone.now() - timedelta(minutes=31)
    OrderRecipient.objects.update(since_at=late)
    found = operator.get(f"/orders/{number}").json()
    assert (found["overdue"], found["counts"]["overdue"]) == (True, 2)
    assert [each["turns"] for each in found["recipients"]] == [0, 0]
    report(fleet[0], number, "working")
    operator.patch(f"/orders/{number}", {"state": "done", "mysis": "Bo"})
    assert not operator.get(f"/orders/{number}").json()["overdue"]
    OrderRecipient.objects.update(since_at=late)
    operator.patch(f"/orders/{number}", {"state": "open", "mysis": "Bo"})
    found = operator.get(f"/orders/{number}").json()
    assert [each["overdue"] for each in found["recipients"]] == [True, False]


def report(mysis: Mysis, number: int | None, status: str, note: str = "") -> Any:
    return orders.report_order(mysis=mysis, number=number, status=status, note=note)


def test_a_mysis_reports_its_own_open_orders_alone(
    fleet: list[Mysis], operator: Program
) -> None:
    ada, bo, *_ = fleet
    with pytest.raises(ActionError, match="You have no open order"):
        report(ada, None, "done")
    first, second = (give(operator, myses=[name])["id"] for name in ("Ada", "Bo"))
    with pytest.raises(ActionError, match=f"given to others.* {first} .Return to base"):
        report(ada, second, "done")
    with pytest.raises(ActionError, match=r"order 99999 does not exist\. Open for you"):
        report(ada, 99999, "done")
    assert report(ada, None, "done", "Docked.").order_id == first
    with pytest.raises(ActionError, match="has ended as done, said by mysis:Ada"):
        report(ada, first, "not_done")
    for _ in range(2):
        give(operator, myses=["Bo"])
    with pytest.raises(ActionError, match="name the order that is meant"):
        report(bo, None, "done")
    found = read_order(first)
    assert found is not None
    assert (found.state, found.recipients[0].note) == ("done", "Docked.")
    [(owner, data)] = [line for line in told() if "report" in line[1]]
    assert (owner, data["state"], data["note"]) == (ada.pk, "done", "Docked.")


async def test_an_order_whose_sender_died_reaches_the_rest_once(
    fleet: list[Mysis], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process is gone after the first batch; its order is whole all the same."""
    monkeypatch.setattr(messages, "BATCH", 1)
    monkeypatch.setattr(messages, "deliver_broadcast", lambda pk: None)
    sent = actions.send_broadcast(text="Home.", by="x", supersedes=True)
    assert messages._deliver_batch(sent.pk, wait=True)
    order = Order.objects.get(broadcast=sent)
    found = read_order(order.pk)
    assert found is not None
    assert (found.state, found.counts.sent) == ("queued", 3)
    assert [one.name for one in found.recipients] == ["Ada", "Bo", "Cy"]
    with pytest.raises(ActionError, match="still being delivered"):
        orders.change_order(order=order, by="x", state="done")
    for _ in range(2):
        await recovery.reconcile()
        assert OrderRecipient.objects.filter(order=order).count() == 3
    assert len(told()) == 1
    orders.change_order(order=order, by="x", state="done")
    found = read_order(order.pk)
    assert found is not None
    assert (found.state, found.counts.done) == ("done", 3)


def test_an_order_stays_when_its_message_or_broadcast_goes(
    fleet: list[Mysis], operator: Program
) -> None:
    number = give(operator, fleet=True)["id"]
    Memory.objects.all().delete()
    Broadcast.objects.all().delete()
    found = operator.get(f"/orders/{number}").json()
    assert (found["text"], found["counts"]["sent"]) == ("Return to base.", 3)
    operator.patch(f"/orders/{number}", {"state": "done"})
    assert states(operator.patch(f"/orders/{number}", {"state": "open"}).json()) == {
        "Ada": "answered", "Bo": "answered", "Cy": "answered",
    }  # fmt: skip


def test_an_order_that_fails_takes_its_messages_back(fleet: list[Mysis]) -> None:
    with pytest.raises(RuntimeError), transaction.atomic():
        messages.send_order(myses=fleet, text="Go.", by="x", supersedes=True)
        raise RuntimeError
    assert (Order.objects.count(), Memory.objects.count()) == (0, 0)


def test_prune_removes_orders_that_ended_and_no_open_one(
    fleet: list[Mysis], operator: Program
) -> None:
    ended, waiting = (give(operator, group="miners")["id"] for _ in range(2))
    operator.patch(f"/orders/{ended}", {"state": "done"})
    operator.patch(f"/orders/{waiting}", {"state": "done", "mysis": "Ada"})
    [step] = [
        step for step in plan_steps(timezone.now()) if step.what == "orders that ended"
    ]
    assert (step.count, sum(step.removal)) == (1, 1)
    assert [order.pk for order in Order.objects.all()] == [waiting]


def test_prune_keeps_the_messages_of_open_orders(
    fleet: list[Mysis], operator: Program
) -> None:
    waiting, ended = (give(operator, group="miners")["id"] for _ in range(2))
    give(operator, group="miners")
    operator.patch(f"/orders/{ended}", {"state": "done"})
    gone = find_old_messages(timezone.now(), [])
    parts = OrderRecipient.objects.all()
    kept = parts.filter(order=waiting).values_list("memory_id", flat=True)
    assert not {*kept} & {*gone}
    removed = parts.filter(order=ended).values_list("memory_id", flat=True)
    assert {*removed} <= {*gone}


def test_what_a_mysis_said_stays_when_its_order_is_cleared(
    fleet: list[Mysis], operator: Program
) -> None:
    order = give(operator, group="miners")["id"]
    ada = Mysis.objects.get(name="Ada")
    report(ada, order, "working", "60 of 100 mined")
    report(ada, order, "working")
    with transaction.atomic():
        orders.clear_open_orders([ada], by="operator:ann")
    row = OrderRecipient.objects.get(order=order, mysis=ada)
    assert (row.state, row.note) == ("superseded", "60 of 100 mined")


WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"


def test_a_report_that_comes_with_an_operators_tick_does_not_undo_it(
    fleet: list[Mysis], operator: Program
) -> None:
    """Over two connections: the report waits for the tick, and is refused by it."""
    number = give(operator, myses=["Ada"])["id"]
    found: list[str] = []

    def report_late() -> None:
        try:
            report(fleet[0], number, "done", "Docked.")
            found.append("kept")
        except ActionError as error:
            found.append(error.code)
        finally:
            connection.close()

    late = threading.Thread(target=report_late)
    with transaction.atomic():
        order = Order.objects.get(pk=number)
        orders.change_order(
            order=order, by="operator:ann", state="not_done", note="No."
        )
        late.start()
        while not found and not fetch_row(WAITING, ())[0]:
            late.join(0.01)
        assert found == [], "it waits"
    late.join()
    row = OrderRecipient.objects.get(order=number)
    assert found == ["ended"]
    assert (row.state, row.note, row.changed_by) == ("not_done", "No.", "operator:ann")
