"""Who idles: the reason, the order before it, and what can be done about it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.html import escape

from agents import actions
from agents.actions.orders import change_order
from agents.dashboard import fleet, health
from agents.dashboard.live import fragments
from agents.idle import Reason, load_idle, read_idle_words, read_idlers
from agents.models import Mysis, Order, OrderRecipient, Turn
from agents.tools.fleet_answers import answer_list_myses, answer_swarm_status
from agents.tools.own_tool_answers import Scope
from tests.agents.dashboard.test_health import worker
from tests.factories import make_mysis, make_turn
from tests.statements import record_statements

HTMX = {"HX-Request": "true"}
pytestmark = pytest.mark.django_db


def rest(name: str, *, lasted: int = 300, **values: Any) -> Mysis:
    """A Mysis that was started and idles again for two minutes."""
    mysis = make_mysis(name=name, state="idle", turn_count=1, epoch=1, **values)
    ended = timezone.now() - timedelta(minutes=2)
    turn = make_turn(mysis, epoch=1, finished_at=ended, outcome="done")
    began = ended - timedelta(seconds=lasted)
    Turn.objects.filter(pk=turn.pk).update(started_at=began)
    return mysis


def order(
    *myses: Mysis, state: str = "answered", text: str = "Return to base"
) -> Order:
    found = Order.objects.create(text=text, sender="operator:ann")
    for mysis in myses:
        OrderRecipient.objects.create(order=found, mysis=mysis, state=state)
    return found


def line() -> str:
    """The health line of the fleet page, as text."""
    drawn = fragments.draw_fleet_head(health.read_health(timezone.now()))
    html = next(one.html for one in drawn if one.id == "fleet-health")
    return " ".join(html.split())


def test_a_fleet_that_idles_after_one_order_is_one_line_with_what_to_do() -> None:
    worker()
    myses = [rest(f"M{n:02}") for n in range(9)]
    make_mysis(name="Zoe", state="running", last_memory_at=timezone.now())
    order(*myses, text="All hands: return to base")
    [group] = read_idlers().groups
    assert (group.count, group.reason, group.unnamed) == (9, Reason.NOTHING_DONE, 3)
    shown = line()
    assert "All is well" not in shown
    assert '<b class="num">9 of 10</b> idle for <time' in shown
    assert "2 min</time>" in shown
    assert "last order &#x27;All hands: return to base&#x27;" in shown
    numbers = ",".join(str(one.pk) for one in myses)
    assert f'href="/?to={numbers}#composer"' in shown
    assert "Clear the order and start" in shown


def test_who_did_its_order_idles_as_asked() -> None:
    worker()
    make_mysis(name="Zoe", state="running", last_memory_at=timezone.now())
    ada = rest("Ada")
    given = order(ada)
    assert read_idlers().unasked == 1
    change_order(order=given, by="operator:ann", state="done")
    found = read_idlers()
    assert (found.asked, found.unasked) == (1, 0)
    assert "All is well: 1 of 2 playing, 1 idle with its last order done" in line()
    order(ada, state="not_done", text="Sell it all")
    assert read_idlers().unasked == 1, "what was not done is nobody's wish"
    assert "idle for" in line()
    assert "its order was left undone, last order &#x27;Sell it all&#x27;" in line()
    cleared = order(ada, text="Mine")
    change_order(order=cleared, by="operator:ann", state="superseded")
    [group] = read_idlers().groups
    assert group.text == "1 idle, its order was cleared, last order 'Mine'"


def test_a_fleet_that_waits_as_a_whole_is_said_so_with_a_button(
    sign_in: Callable[[str], Client],
) -> None:
    worker()
    ada, brahe = rest("Ada"), rest("Brahe")
    change_order(order=order(ada, brahe), by="mysis:Ada", state="done")
    shown = line()
    assert "The whole fleet is waiting for you." in shown
    assert '<b class="num">2 of 2</b> idle for' in shown
    assert "all-well" not in shown
    both = f"{ada.pk},{brahe.pk}"
    assert f'name="myses" value="{both}" formaction="/idle/start/"' in shown
    sign_in("operator").post("/idle/start/", {"myses": both})
    assert set(Mysis.objects.values_list("state", flat=True)) == {"running"}
    assert "The whole fleet" not in line()


def test_an_open_order_is_not_made_up_for_by_a_newer_one_that_is_done() -> None:
    ada = rest("Ada")
    waiting = order(ada, text="Mine iron")
    order(ada, state="done")
    [idle] = load_idle()
    assert (idle.reason, idle.newest_open) == (Reason.NOTHING_DONE, waiting.pk)


def test_each_reason_is_said() -> None:
    worker()
    make_mysis(name="New", state="idle")
    rest("Mute", last_error="The model answered nothing.")
    rest("Quick", lasted=12)
    make_mysis(name="Off", state="stopped")
    found = {one.name: one for one in load_idle()}
    assert {name: one.reason for name, one in found.items()} == {
        "New": Reason.NEVER_STARTED,
        "Mute": Reason.NO_ANSWER,
        "Quick": Reason.NOTHING_DONE,
    }
    assert "idle again 12 s after its start" in found["Quick"].words
    assert found["Mute"].lasted is None
    shown = line()
    assert "never started" in shown
    assert "idle again within a minute of the start" in shown
    rows = fleet.load_rows(
        list(Mysis.objects.values_list("pk", flat=True)), timezone.now()
    )
    cells = {row.name: fragments.draw_cells(row)[0].html for row in rows}
    assert "never started" in cells["New"]
    assert "stopped by an operator" in cells["Off"]
    assert "its model answered nothing" in cells["Mute"]


def test_a_start_ends_the_open_orders_if_asked(client: Client) -> None:
    ada = rest("Ada")
    order(ada)
    actions.start_mysis(mysis=ada, by="operator:ann", clear_orders=True)
    assert OrderRecipient.objects.get().state == "superseded"
    assert Mysis.objects.get().state == "running"


def test_the_buttons_do_what_they_say(sign_in: Callable[[str], Client]) -> None:
    operator_client = sign_in("operator")
    ada, brahe, other = rest("Ada"), rest("Brahe"), rest("Cassini")
    order(ada, brahe)
    both = f"{ada.pk},{brahe.pk}"
    page = operator_client.get("/", {"to": both}).content.decode()
    assert f'<option value="{both}" selected>2 Myses: Ada, Brahe</option>' in page
    sent = operator_client.post("/send/", {"to": both, "text": "Go on."})
    assert sent.status_code in (200, 302)
    states = dict(Mysis.objects.values_list("name", "state"))
    assert states == {"Ada": "running", "Brahe": "running", "Cassini": "idle"}
    old = order(other)
    [group] = [one for one in read_idlers().groups if one.newest_open == old.pk]
    path = f"/idle/restart/?upto={group.newest_open}"
    assert path in line()
    since = order(other, text="Wait for me")
    started = operator_client.post(path, {"myses": str(other.pk)})
    assert started.status_code in (200, 302)
    assert Mysis.objects.get(name="Cassini").state == "running"
    parts = dict(
        OrderRecipient.objects.filter(mysis=other).values_list("order", "state")
    )
    assert parts == {old.pk: "superseded", since.pk: "answered"}, "not what came since"
    blind = operator_client.post("/idle/restart/", {"myses": both}, headers=HTMX)
    assert blind.status_code == 422
    assert b"load the page again" in blind.content
    wrong = operator_client.post("/idle/start/", {"myses": "x,"}, headers=HTMX)
    assert wrong.status_code == 422


def test_a_viewer_starts_nobody(sign_in: Callable[[str], Client]) -> None:
    ada = rest("Ada")
    viewer = sign_in("viewer")
    refused = viewer.post("/idle/restart/", {"myses": str(ada.pk)}, headers=HTMX)
    assert refused.status_code == 403
    assert Mysis.objects.get().state == "idle"


def test_rest_and_mcp_say_the_same_counts(viewer_program: Any) -> None:
    ada = rest("Ada")
    given = order(ada, text="All hands: return to base")
    told = viewer_program.get("/fleet").json()["idle"]
    assert (told["total"], told["asked"], told["unasked"]) == (1, 0, 1)
    [group] = told["groups"]
    assert group["order"] == given.pk
    assert group["text"] == "1 idle, last order 'All hands: return to base'"
    assert group["myses"] == ["Ada"]
    outside = answer_swarm_status({}, Scope("token:x")).value["idle"]
    assert {**outside["groups"][0], "since": ""} == {**group, "since": ""}
    assert "idle" not in answer_swarm_status({}, Scope("mysis:Ada", ada.pk)).value
    json.dumps(outside)


def test_rest_and_mcp_say_why_one_idles_as_its_page_does(
    viewer_program: Any,
    sign_in: Callable[[str], Client],
) -> None:
    done, undone, idle = rest("Done"), rest("Undone", lasted=3), rest("Idle")
    order(done, state="done")
    order(undone, state="not_done", text="Sell it")
    make_mysis(name="New", state="idle")
    make_mysis(name="Wrong", state="idle", last_error="Nothing came.")
    make_mysis(name="Busy", state="running")
    said = {one.name: one.words for one in load_idle()} | {"Busy": None}
    assert len({*said.values()}) == len(said)
    listed = viewer_program.get("/myses").json()["items"]
    assert {one["name"]: one["idle"] for one in listed} == said
    told = answer_list_myses({}, Scope("token:x")).value["myses"]
    assert {one["name"]: one["idle"] for one in told} == said
    page = sign_in("viewer")
    for name, words in said.items():
        assert viewer_program.get(f"/myses/{name}").json()["idle"] == words
        if words:
            assert escape(words) in page.get(f"/myses/{name}/").content.decode()
    inside = Scope("mysis:Done", done.pk)
    started = actions.start_mysis(mysis=idle, by="operator:ann")
    assert viewer_program.get(f"/myses/{started.pk}").json()["idle"] is None
    assert "idle" not in answer_list_myses({}, inside).value["myses"][0]


def test_why_they_idle_is_read_once_for_all() -> None:
    few = [rest("A")]
    with record_statements() as asked:
        assert len(read_idle_words(few)) == 1
    assert len(asked) == 1
    many = [*few, *(rest(f"M{n}") for n in range(5)), make_mysis(state="running")]
    with record_statements() as asked:
        assert len(read_idle_words(many)) == 6
    assert len(asked) == 1


def test_equal_troubles_are_one_line_that_names_every_way_out() -> None:
    for name in ("Ada", "Brahe", "Cassini"):
        make_mysis(
            name=name,
            state="errored",
            last_error='No provider is named "acme".',
            last_error_code="model",
        )
    [trouble] = health.read_health(timezone.now()).troubles
    assert [one.name for one in trouble.myses] == ["Ada", "Brahe", "Cassini"]
    model, provider = trouble.fixes
    assert model.label == "Change its model"
    assert [name for name, _ in model.each] == ["Ada", "Brahe", "Cassini"]
    assert (provider.link, provider.each) == ("/admin/agents/provider/add/", ())
    shown = line()
    assert shown.count("acme") == 1
    assert "Add its provider" in shown


def test_who_did_an_order_before_its_start_or_fell_silent_idles_unasked() -> None:
    again, mute = rest("Again"), rest("Mute", last_error="The model answered nothing.")
    order(again, mute, state="done")
    long_ago = timezone.now() - timedelta(days=7)
    OrderRecipient.objects.filter(mysis=again).update(changed_at=long_ago)
    OrderRecipient.objects.filter(mysis=mute).update(changed_at=timezone.now())
    assert {one.name: one.reason for one in load_idle()} == {
        "Again": Reason.NOTHING_DONE,
        "Mute": Reason.NO_ANSWER,
    }


def test_those_who_were_told_the_same_one_by_one_are_one_line() -> None:
    for number in range(3):
        order(rest(f"M{number}"), text="Dock.")
    [group] = read_idlers().groups
    assert (group.count, group.order_id) == (3, None)
