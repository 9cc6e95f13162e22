"""The small forms of a Mysis's head: who may, what is refused, what is not lost."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from typing import Any
from unittest import mock

import pytest
from django.test import Client
from django.utils.html import escape

from agents import actions
from agents.actions.pins import save_pin
from agents.models import Budget, Event, Mysis, Pin, Prompt, Provider
from agents.views import mysis_forms
from memory.models import ContextPolicy
from tests.factories import make_mysis, make_provider
from tests.fakes.openai import KEY, FakeProvider

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true", "HX-Target": "editor"}
PARTS = ("model", "prompt", "policy", "group", "budget", "pins")


def address(part: str, mysis: str = "Ada") -> str:
    return f"/myses/{mysis}/edit/{part}/"


def read_version(client: Client, part: str) -> str:
    """What the form that is open now holds as its version."""
    text = client.get(address(part), headers=HTMX).content.decode()
    found = re.search(r'name="version" value="([^"]*)"', text)
    return found[1].replace("&quot;", '"') if found else ""


def send(client: Client, part: str, **values: Any) -> Any:
    """Send a form as the page does, from a version that was just read unless given."""
    values.setdefault("version", read_version(client, part))
    return client.post(address(part), values, headers=HTMX)


@pytest.fixture
def ada() -> Mysis:
    return make_mysis(name="Ada", state="running", prompt=actions.get_default_prompt())


def test_each_setting_is_saved_with_a_notice_and_the_new_head(
    admin: Client, ada: Mysis
):
    prompt = Prompt.objects.create(name="miner")
    policy = ContextPolicy.objects.create(name="tight")
    for part, values, shown in (
        ("model", {"model": " pilot:forgetful "}, "pilot:forgetful"),
        ("prompt", {"prompt": prompt.pk}, "miner"),
        ("policy", {"policy": policy.pk}, "tight"),
        ("group", {"group": "miners", "tags": "scout, far,scout"}, "far"),
    ):
        answer = send(admin, part, **values)
        assert answer.status_code == 200, part
        assert answer["HX-Retarget"] == "#notices"
        assert "edited" in answer["HX-Trigger"]
        text = answer.content.decode()
        assert "of Ada: saved. It counts from its next" in text
        head = text.partition('id="mysis-head"')[2]
        assert shown in head, part
    ada.refresh_from_db()
    assert (ada.model, ada.prompt, ada.policy) == ("pilot:forgetful", prompt, policy)
    assert (ada.group, ada.tags) == ("miners", ["scout", "far"])
    told = Event.objects.latest("pk").data
    assert told["by"].startswith("operator:")


def test_without_a_script_each_is_a_page_that_leads_back(admin: Client, ada: Mysis):
    text = admin.get(address("model")).content.decode()
    assert "<h1>Model</h1>" in text
    values = {"model": "pilot", "version": read_version(admin, "model")}
    answer = admin.post(address("model"), values)
    assert answer.status_code == 302
    assert answer["Location"] == "/myses/Ada/"
    assert "Model of Ada: saved." in admin.get("/myses/Ada/").content.decode()
    assert admin.get(address("colour")).status_code == 404


@pytest.mark.parametrize("role", ["operator", "viewer"])
def test_only_admins_are_given_forms(
    sign_in: Callable[..., Client], ada: Mysis, role: str
):
    client = sign_in(role)
    sent = {"model": "x:y", "group": "x", "text": "x", "name": "x", "tokens": "1"}
    for part in PARTS:
        assert client.get(address(part), headers=HTMX).status_code == 403
        assert client.post(address(part), sent, headers=HTMX).status_code == 403
    assert client.get("/myses/Ada/models/", headers=HTMX).status_code == 403
    ada.refresh_from_db()
    assert (ada.model, ada.group) == ("pilot", "")
    assert not Pin.objects.exists()
    assert not Budget.objects.exists()


def test_a_viewer_sees_the_values(sign_in: Callable[..., Client], ada: Mysis):
    ada.group, ada.tags = "miners", ["scout"]
    ada.save()
    actions.add_pin(mysis=ada, text="Never attack.", by="system")
    text = sign_in("viewer").get("/myses/Ada/").content.decode()
    head = text.partition('id="mysis-head"')[2].partition('id="mysis-view"')[0]
    for value in ("pilot", "captain", "miners", "scout", "Never attack."):
        assert value in head
    # The page hides what a role does not have; the links are marked for it.
    links = re.findall(r'class="edit ([a-z-]+)"', head)
    assert sorted(links) == ["admin-only"] * 6 + ["operator-only"]


@pytest.mark.parametrize(
    ("part", "values", "words"),
    [
        ("model", {"model": ""}, "This field is required."),
        ("model", {"model": "nobody:gpt"}, "No provider is named"),
        ("model", {"model": "x" * 301}, "at most 300"),
        ("model", {"model": "a\x00b"}, "Null characters"),
        ("prompt", {"prompt": "999"}, "not one of the available"),
        ("policy", {"policy": "x"}, "not one of the available"),
        ("group", {"group": "g" * 101}, "at most 100"),
        ("group", {"group": "kept", "tags": ",".join("abcdefghijklmnopqrstu")}, "20"),
        ("budget", {"name": "b", "period": "day"}, "Give a limit of tokens"),
        ("budget", {"name": "b", "period": "day", "cost": "-1"}, "greater than"),
        ("budget", {"name": "a/b", "period": "day", "cost": "1"}, "A name may not"),
        ("pins", {"text": "  "}, "The New order is empty|is empty|required"),
    ],
)
def test_what_is_refused_stands_at_its_field_with_what_was_typed(
    admin: Client, ada: Mysis, part: str, values: dict[str, str], words: str
):
    answer = send(admin, part, **values)
    assert answer.status_code == 422
    text = answer.content.decode()
    assert re.search(words, text), text
    assert "field-error" in text
    typed = max(values.values(), key=len)
    if typed.strip() and "\x00" not in typed and part not in ("prompt", "policy"):
        assert escape(typed) in text
    ada.refresh_from_db()
    assert (ada.model, ada.group, ada.tags) == ("pilot", "", [])


@pytest.mark.parametrize(
    ("part", "mine", "theirs", "says"),
    [
        ("model", {"model": "pilot:mine"}, {"model": "pilot:theirs"}, "pilot:theirs"),
        ("prompt", {"prompt": ""}, {"prompt": "miner"}, "miner"),
        ("group", {"group": "mine", "tags": "a"}, {"tags": ["b", "c"]}, "tags b, c"),
    ],
)
def test_a_stale_form_says_so_and_loses_nothing(
    admin: Client, ada: Mysis, part: str, mine: Any, theirs: Any, says: str
):
    version = read_version(admin, part)
    if "prompt" in theirs:
        theirs = {"prompt": Prompt.objects.create(name="miner")}
    actions.update_mysis(mysis=ada, by="operator:bob", **theirs)
    answer = send(admin, part, version=version, **mine)
    assert answer.status_code == 409
    text = answer.content.decode()
    assert "Somebody else changed this meanwhile" in text
    assert f"Now it is: {says}" in text or f"; {says}" in text
    for typed in filter(None, mine.values()):
        assert f'value="{typed}"' in text
    ada.refresh_from_db()
    assert all(getattr(ada, name) == value for name, value in theirs.items())
    # As is one that does not say what it was opened with.
    assert send(admin, part, version="", **mine).status_code == 409
    # Sent again, with what the form says now, it takes the place of theirs.
    again = re.search(r'name="version" value="([^"]*)"', text)
    assert again
    sent = send(admin, part, version=again[1].replace("&quot;", '"'), **mine)
    assert sent.status_code == 200


# --- Models that cannot work


@pytest.fixture
def lab(provider: FakeProvider) -> Provider:
    row = make_provider(name="lab", kind="openai", base_url=provider.url, key=KEY)
    provider.tell("/v1/models", {"data": [{"id": "gpt-5-nano"}, {"id": "gpt-5"}, 7]})
    return row


def test_the_models_are_those_that_the_provider_lists(
    admin: Client, ada: Mysis, lab: Provider
):
    dead = Provider(name="dead", kind="openai", base_url="http://127.0.0.1:1/v1")
    dead.save()
    text = admin.get("/myses/Ada/models/", headers=HTMX).content.decode()
    assert '<option value="lab:gpt-5-nano">' in text
    assert '<option value="pilot">' in text
    # Where the fleet has more than are offered, those that most Myses have.
    for model in ("a:rare", "z:often", "z:often"):
        make_mysis(model=model)
    with mock.patch.object(mysis_forms, "MOST_OFFERED", 1):
        ada.delete()
        assert mysis_forms._list_used_models() == ["pilot", "z:often"]
    assert re.search(r"lab</bdi>\s+has 2 models", text)
    assert re.search(r"dead</bdi>\s+does not answer", text)
    assert KEY not in text


def test_a_model_that_cannot_work_is_warned_of_and_saved_all_the_same(
    admin: Client, ada: Mysis, lab: Provider, provider: FakeProvider
):
    assert send(admin, "model", model="lab:gpt-5").status_code == 200
    answer = send(admin, "model", model="lab:gpt-6")
    assert answer.status_code == 422
    text = answer.content.decode()
    assert "lab does not list a model gpt-6. It has gpt-5, gpt-5-nano." in text
    assert "Save all the same" in text
    assert 'value="lab:gpt-6"' in text
    provider.tell("/v1/models", {"error": {"message": "no"}}, 401)
    text = send(admin, "model", model="lab:gpt-5").content.decode()
    assert "lab refuses its key" in text
    provider.tell("/v1/models", "not JSON")
    assert send(admin, "model", model="lab:gpt-6").status_code == 200
    del provider.lists["/v1/models"]
    lab.base_url = "http://127.0.0.1:1/v1"
    lab.save()
    text = send(admin, "model", model="lab:gpt-7").content.decode()
    assert "lab does not answer" in text
    text = send(admin, "model", model="lab").content.decode()
    assert "names a provider but no model" in text
    text = send(admin, "model", model="lab:gpt-7").content.decode()
    warned = re.search(r'name="insist" value="([^"]*)"', text)
    assert warned
    insist = unescape(warned[1])
    # Who insists, insists on what was warned of, not on what was typed since.
    answer = send(admin, "model", model="lab:gpt-8", insist=insist)
    assert answer.status_code == 422
    answer = send(admin, "model", model="lab:gpt-7", insist=insist)
    assert answer.status_code == 200
    ada.refresh_from_db()
    assert ada.model == "lab:gpt-7"


# --- Standing orders and the budget


def test_standing_orders_are_added_acknowledged_and_done(admin: Client, ada: Mysis):
    text = send(admin, "pins", text="Never\r\nattack.").content.decode()
    assert "The order stands." in text
    assert re.search(r'name="state" value="superseded"', text)
    pin = Pin.objects.get()
    assert (pin.text, pin.state) == ("Never\nattack.", "active")
    double = send(admin, "pins", text="Never\nattack.")
    assert double.status_code == 409
    assert "stands already" in double.content.decode()
    for state in ("acknowledged", "done"):
        sent = {"pin": pin.pk, "state": state, "before": pin.state}
        answer = admin.post(address("pins"), sent, headers=HTMX)
        assert f"The order is {state}." in answer.content.decode()
        pin.refresh_from_db()
        assert pin.state == state
    # Another order took the place of one.
    old = actions.add_pin(mysis=ada, text="Mine gold.", by="system")
    sent = {"pin": old.pk, "state": "superseded", "before": "active"}
    answer = admin.post(address("pins"), sent, headers=HTMX)
    assert "The order is superseded." in answer.content.decode()
    # Somebody's older page: what became of it since is not taken back.
    sent = {"pin": pin.pk, "state": "acknowledged", "before": "active"}
    answer = admin.post(address("pins"), sent, headers=HTMX)
    assert answer.status_code == 409
    assert "Meanwhile this order is done" in answer.content.decode()
    other = actions.add_pin(mysis=make_mysis(name="Bo"), text="x", by="system")
    sent = {"pin": other.pk, "state": "done", "before": "active"}
    assert admin.post(address("pins"), sent, headers=HTMX).status_code == 404
    sent = {"pin": pin.pk, "state": "vanished", "before": "done"}
    assert admin.post(address("pins"), sent, headers=HTMX).status_code == 422


def test_the_text_of_a_standing_order_is_edited_and_the_old_one_kept(
    admin: Client, ada: Mysis
):
    old = actions.add_pin(mysis=ada, text="Never attack.", by="token:ci")
    part = f"pins/{old.pk}"
    assert f'href="/myses/Ada/edit/{part}/"' in (
        admin.get(address("pins"), headers=HTMX).content.decode()
    )
    assert "Never attack." in admin.get(address(part)).content.decode()
    assert send(admin, part, text="  ").status_code == 422
    # The same again is no new version.
    assert send(admin, part, text="Never attack.").status_code == 200
    assert Pin.objects.count() == 1
    answer = send(admin, part, text="Never\r\nattack miners.")
    assert answer.status_code == 200
    assert answer["HX-Retarget"] == "#notices"
    assert "attack miners." in answer.content.decode()
    old.refresh_from_db()
    new = ada.pins.get(state="active")
    assert (old.text, old.state) == ("Never attack.", "superseded")
    assert (new.text, new.author) == ("Never\nattack miners.", old.changed_by)
    # One that stands already is refused, and the order that was edited stands on.
    double = actions.add_pin(mysis=ada, text="Mine gold.", by="token:ci")
    answer = send(admin, f"pins/{new.pk}", text=double.text)
    assert answer.status_code == 409
    assert "stands already" in answer.content.decode()
    new.refresh_from_db()
    assert new.state == "active"


def test_an_order_that_changed_or_ended_meanwhile_is_not_written_over(
    admin: Client, ada: Mysis
):
    pin = actions.add_pin(mysis=ada, text="Never attack.", by="token:ci")
    part = f"pins/{pin.pk}"
    version = read_version(admin, part)
    pin.text = "Always attack."
    save_pin(pin=pin, by="operator:bob")
    answer = send(admin, part, version=version, text="Mine.")
    text = answer.content.decode()
    assert answer.status_code == 409
    assert "Now it is: Always attack." in text
    assert ">\nMine.</textarea>" in text
    assert list(Pin.objects.values_list("text", flat=True)) == ["Always attack."]
    # Done meanwhile: what was typed is offered as a new order, and is not added yet.
    actions.set_pin_state(pin=pin, state="done", by="operator:bob")
    answer = send(admin, part, version=version, text="Mine.")
    text = answer.content.decode()
    assert answer.status_code == 409
    assert "stands no longer" in text
    assert ">\nMine.</textarea>" in text
    assert f'action="{address("pins")}"' in text
    assert Pin.objects.count() == 1
    other = actions.add_pin(mysis=make_mysis(name="Bo"), text="x", by="token:ci")
    # One of another Mysis, and one that never was, have no such page.
    for number in (other.pk, 99_999, 2**70):
        assert send(admin, f"pins/{number}", text="y").status_code == 404
        assert admin.get(address(f"pins/{number}")).status_code == 404
    other.refresh_from_db()
    assert (other.text, other.state) == ("x", "active")


def test_the_budget_of_a_mysis_is_made_changed_and_removed(admin: Client, ada: Mysis):
    values = {"name": "Ada alone", "period": "day", "tokens": "", "cost": "2.5"}
    assert send(admin, "budget", **values).status_code == 200
    budget = Budget.objects.get()
    assert (budget.scope, budget.mysis, float(budget.cost or 0)) == ("mysis", ada, 2.5)
    version = read_version(admin, "budget")
    budget.tokens = 7
    budget.save()
    answer = send(admin, "budget", version=version, **values | {"cost": "9"})
    assert answer.status_code == 409
    text = answer.content.decode()
    assert "tokens 7" in text
    assert 'value="9"' in text
    # A form that was opened when there was none makes no second one.
    assert send(admin, "budget", version="", **values).status_code == 409
    # It lifts a limit: asked first.
    text = admin.get(address("budget"), headers=HTMX).content.decode()
    assert re.search(r'name="remove"[^>]*hx-confirm="Remove this budget\?', text)
    assert send(admin, "budget", remove="yes").status_code == 200
    assert not Budget.objects.exists()
    answer = send(admin, "budget", version=version, **values)
    assert answer.status_code == 409
    assert "Somebody else changed this meanwhile" in answer.content.decode()


def test_without_a_script_a_page_asks_before_a_budget_goes(admin: Client, ada: Mysis):
    values = {"name": "Ada alone", "period": "day", "tokens": "", "cost": "2.5"}
    assert send(admin, "budget", **values).status_code == 200
    sent = {"remove": "yes", "version": read_version(admin, "budget")}
    text = admin.post(address("budget"), sent).content.decode()
    assert "Remove this budget? Ada may then spend" in text
    assert f'href="{address("budget")}">Cancel' in text
    assert Budget.objects.exists()
    # Its button sends the same again, which is still refused where it is stale.
    again = dict(re.findall(r'name="(\w+)" value="([^"]*)"', text))
    again = {name: unescape(value) for name, value in again.items()}
    assert again.items() >= (sent | {"confirmed": "yes"}).items()
    assert admin.post(address("budget"), again).status_code == 302
    assert not Budget.objects.exists()


def test_notes_are_written_in_the_dialog_too(
    sign_in: Callable[..., Client], ada: Mysis
):
    operator = sign_in("operator")
    text = operator.get("/myses/Ada/notes/", headers=HTMX).content.decode()
    assert "Notes of" in text
    assert 'hx-target="#editor"' in text
    values = {"name": "base", "text": "Sol", "version": "0"}
    answer = operator.post("/myses/Ada/notes/save/", values, headers=HTMX)
    text = answer.content.decode()
    assert "Note base is kept, version 1." in text
    assert "?name=base" in text
