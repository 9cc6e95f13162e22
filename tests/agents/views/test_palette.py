"""What the palette offers to whom, and what a bulk stop can be undone with."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from django.test import Client

from agents.models import Mysis
from memory.models import Memory
from tests.factories import make_mysis

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}


def offer(client: Client, typed: str) -> list[str]:
    """The words of all options."""
    answer = client.get("/palette/", {"q": typed})
    assert answer.status_code == 200
    return [one.words for one in answer.context["options"]]


def test_an_operator_is_offered_commands(sign_in: Callable[..., Client]):
    client = sign_in("operator")
    make_mysis(name="Ada", state="running")
    make_mysis(name="Adalbert", state="stopped")
    make_mysis(name="Nevada", state="idle")
    assert offer(client, "ada") == [
        "Ada", "Adalbert", "Nevada", "Stop Ada", "Message Ada", "Search for “ada”",
    ]  # fmt: skip
    assert offer(client, "stop  ADA")[:2] == ["Stop Ada", "Stop Nevada"]
    assert offer(client, "start ada")[:2] == ["Start Adalbert", "Start Nevada"]
    assert offer(client, "message ad")[:2] == ["Message Ada", "Message Adalbert"]
    assert offer(client, "message adalbert go on")[0] == "Send to Adalbert: “go on”"
    assert offer(client, "message all go")[0] == "Send to the whole fleet: “go”"
    assert offer(client, "message all")[0] == "Message the whole fleet"
    assert offer(client, "search iron ore") == ["Search for “iron ore”"]
    assert "New Mysis" not in offer(client, "")
    assert offer(client, "")[-2:] == ["Alerts", "Keyboard shortcuts"]
    assert offer(client, "KEYBOARD sh")[0] == "Keyboard shortcuts"
    assert offer(client, "lab")[0] == "Lab"
    assert 'href="/lab/"' in client.get("/palette/", {"q": "lab"}).content.decode()
    assert "No policy is stored" in client.get("/lab/").content.decode()
    # A percent sign is a sign, and what marks up is text.
    assert offer(client, "message % go") == ["Search for “message % go”"]
    page = client.get("/palette/", {"q": "<b>\x00"}).content.decode()
    assert "Search for “&lt;b&gt;”" in page


def test_what_is_offered_can_be_posted(sign_in: Callable[..., Client]):
    client = sign_in("operator")
    ada = make_mysis(name="Ibn al-Haytham", state="idle")
    answer = client.get("/palette/", {"q": 'message ibn AL-haytham sell "it"'})
    first = answer.context["options"][0]
    sent = client.post(first.post, json.loads(first.values), headers=HTMX)
    assert "Sent to Ibn al-Haytham." in sent.content.decode()
    assert Memory.objects.get(mysis=ada).content == 'sell "it"'
    stop = client.get("/palette/", {"q": "stop ibn"}).context["options"][0]
    client.post(stop.post, headers=HTMX)
    ada.refresh_from_db()
    assert ada.state == Mysis.State.STOPPED


def test_no_act_is_offered_without_a_name(sign_in: Callable[..., Client]):
    client = sign_in("operator")
    make_mysis(name="Ada", state="running")
    make_mysis(name="Brahe", state="stopped")
    for verb in ("stop", "start", " Stop "):
        assert offer(client, verb) == [f"Search for “{verb.strip()}”"]
    # A name that is also a command, or begins with one, is found.
    make_mysis(name="Stopper", state="idle")
    assert offer(client, "stop")[0] == "Stopper"
    make_mysis(name="Message Carrier", state="idle")
    assert "Message Carrier" in offer(client, "message")
    assert "Message Carrier" in offer(client, "message carrier")


def test_a_viewer_is_offered_what_can_be_read(sign_in: Callable[..., Client]):
    client = sign_in("viewer")
    make_mysis(name="Ada", state="running")
    assert offer(client, "ada") == ["Ada", "Search for “ada”"]
    assert offer(client, "stop ada") == ["Search for “stop ada”"]
    assert "select the row" not in client.get("/palette/keys/").content.decode()
    assert "New Mysis" in offer(sign_in("admin"), "new")


def test_a_stranger_is_offered_nothing(client: Client):
    for page in ("/palette/", "/palette/keys/"):
        assert client.get(page).status_code == 302
    assert 'id="palette"' not in client.get("/sign-in/").content.decode()


def test_those_that_ran_are_started_again(sign_in: Callable[..., Client]):
    client = sign_in("operator")
    ada = make_mysis(name="Ada", state="running")
    idle = make_mysis(name="Brahe", state="idle")
    stop = {"act": "stop", "mysis": [ada.pk, idle.pk]}
    page = client.post("/bulk/", stop, headers=HTMX).content.decode()
    assert "Stopped 2 Myses." in page
    assert f'name="myses" value="{ada.pk}"' in page
    again = client.post("/idle/start/", {"myses": str(ada.pk)}, headers=HTMX)
    assert "Started 1 Mysis." in again.content.decode()
    states = Mysis.objects.order_by("name").values_list("state", flat=True)
    assert list(states) == ["running", "stopped"]
    one = client.post(f"/myses/{ada.pk}/stop/", headers=HTMX).content.decode()
    assert "Ada is stopped." in one
    assert f'name="myses" value="{ada.pk}"' in one
    # Not every page has a form for commands.
    assert "X-CSRFToken" in one
    rested = client.post(f"/myses/{idle.pk}/stop/", headers=HTMX).content.decode()
    assert "again" not in rested
    nobody_ran = client.post("/bulk/", stop | {"mysis": [idle.pk]}, headers=HTMX)
    assert "again" not in nobody_ran.content.decode()
