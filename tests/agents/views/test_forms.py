"""The pages and their forms, as a client without a script sees them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils.html import escape

from agents import actions
from agents.actions.notes import save_note
from agents.models import Broadcast, Event, Mysis, Order
from agents.models.fleet import RESERVED
from memory.models import Memory
from tests.browser import scenes
from tests.factories import make_mysis

HTMX = {"HX-Request": "true"}


PAGES = ["/", "/events/", "/prompts/", "/search/", "/search/?q=x"]


@pytest.mark.parametrize("page", PAGES)
def test_pages_need_a_sign_in(page: str, db: None):
    answer = Client().get(page)
    assert answer.status_code == 302
    assert answer["Location"].startswith("/sign-in/?next=")


def test_every_page_opens_on_an_empty_database(admin: Client):
    for page in (*PAGES, "/myses/new/"):
        answer = admin.get(page)
        assert answer.status_code == 200, page
        # Asked by htmx some answer with a part: no cache may take one for the other.
        assert "HX-Request" in answer["Vary"], page


def test_every_page_opens_on_a_busy_fleet(admin: Client):
    fleet = scenes.busy_fleet()
    pages = [*PAGES]
    for mysis in fleet.values():
        own = reverse("mysis", args=[mysis.name])
        pages += [own, f"{own}context/", f"{own}messages/"]
        turn = mysis.turns.latest("pk")
        pages += [f"/turns/{turn.pk}/", f"/turns/{turn.pk}/calls/1/context/"]
    for page in pages:
        answer = admin.get(page)
        assert answer.status_code == 200, page
        assert "style=" not in answer.content.decode().replace("data-style=", "")
        assert scenes.HOSTILE not in answer.content.decode()


@pytest.mark.parametrize("name", ["new", "NEW", ".", "..", "a b", "é;&\"'<>", "日本語"])
def test_odd_names_have_a_page(admin: Client, name: str):
    mysis = make_mysis(name=name)
    page = admin.get("/").content.decode()
    key = mysis.pk if name.lower() in RESERVED else name
    address = reverse("mysis", args=[key])
    assert f'href="{escape(address)}"' in page
    assert admin.get(address).status_code == 200
    assert admin.get(f"/myses/{mysis.pk}/").status_code == 200


@pytest.mark.parametrize(
    "page",
    [
        "/myses/nobody/",
        "/myses/99999999999999999999999/",
        "/myses/%00/",
        "/turns/99999999999999999999999/",
        "/turns/1/calls/99999999999999999999/context/",
        "/prompts/99999999999999999999999/",
    ],
)
def test_what_is_not_there_is_404(admin: Client, page: str):
    assert admin.get(page).status_code == 404


def test_what_is_not_there_says_where_to_go(admin: Client):
    page = admin.get("/myses/nobody/").content.decode()
    assert "Nothing here." in page
    assert "To the fleet" in page
    assert 'aria-label="Main"' in page


def test_a_stranger_is_told_that_nothing_is_there_without_navigation(client: Client):
    answer = client.get("/no-such-page/")
    page = answer.content.decode()
    assert answer.status_code == 404
    assert "Nothing here." in page
    assert 'aria-label="Main"' not in page
    assert reverse("events") not in page
    assert reverse("sign-out") not in page
    assert f'href="{reverse("sign-in")}"' in page


@pytest.mark.parametrize(
    "query",
    ["?state=x&sort=y&q=%00", "?before=x", "?kind=x&mysis=x&before=9", "?at=x"],
)
def test_bad_parameters_are_no_crash(admin: Client, query: str):
    make_mysis(name="Ada")
    for page in ("/", "/events/", "/myses/Ada/", "/myses/Ada/messages/", "/search/"):
        assert admin.get(page + query).status_code == 200


# -- commands -------------------------------------------------------------------


def test_a_command_without_a_script_goes_back_with_a_message(admin: Client):
    mysis = make_mysis(name="Ada", state="running")
    answer = admin.post(
        "/myses/Ada/stop/", headers={"Referer": "http://testserver/events/"}
    )
    assert answer.status_code == 302
    assert answer["Location"] == "http://testserver/events/"
    assert "Ada is stopped." in admin.get("/events/").content.decode()
    mysis.refresh_from_db()
    assert mysis.state == "stopped"


def test_a_command_with_htmx_answers_in_place(admin: Client):
    make_mysis(name="Ada", state="running")
    answer = admin.post("/myses/Ada/start/", headers=HTMX)
    assert answer.status_code == 409
    assert "Ada is running already" in answer.content.decode()
    answer = admin.post("/myses/Ada/stop/", headers=HTMX)
    assert answer.status_code == 200
    assert "Ada is stopped." in answer.content.decode()


@pytest.mark.parametrize(
    "place", ["http://evil.example/", "//evil.example/", "javascript:alert(1)"]
)
def test_nobody_is_sent_elsewhere(admin: Client, place: str):
    make_mysis(name="Ada")
    answer = admin.post("/myses/Ada/stop/", {"next": place})
    assert answer["Location"] == "/"
    answer = admin.post("/myses/Ada/start/", headers={"Referer": place})
    assert answer["Location"] == "/"


def test_commands_need_post_and_a_csrf_token(sign_in: Callable[..., Client]):
    make_mysis(name="Ada")
    client = sign_in(enforce_csrf_checks=True)
    for path in ("/myses/Ada/start/", "/myses/Ada/stop/", "/send/"):
        assert client.get(path).status_code == 405
        assert client.post(path).status_code == 403
    assert Event.objects.count() == 0


@pytest.mark.parametrize(("role", "allowed"), [("viewer", False), ("operator", True)])
def test_roles(sign_in: Callable[..., Client], role: str, allowed: bool):
    make_mysis(name="Ada")
    client = sign_in(role)
    answer = client.post("/myses/Ada/start/", headers=HTMX)
    assert answer.status_code == (200 if allowed else 403)
    answer = client.post("/send/", {"text": "x"}, headers=HTMX)
    assert answer.status_code == (200 if allowed else 403)
    answer = client.post("/myses/new/", {"name": "Brahe"}, headers=HTMX)
    assert answer.status_code == 403
    assert "needs an admin" in answer.content.decode()
    assert Mysis.objects.count() == 1


def test_a_viewer_writes_nothing(sign_in: Callable[..., Client]):
    ada = make_mysis(name="Ada", state="running", group="miners")
    actions.send_order(myses=[ada], text="Sell the iron.", by="operator:ann")
    save_note(mysis=ada, name="ore", text="iron", by="operator:ann")
    order = Order.objects.get()
    writes: dict[str, Any] = {
        "/send/": {"text": "Come home.", "to": ada.pk},
        "/bulk/": {"act": "stop", "mysis": ada.pk},
        "/idle/start/": {},
        "/idle/restart/": {},
        f"/orders/{order.pk}/change/": {"state": "done"},
        "/myses/Ada/stop/": {},
        "/myses/Ada/edit/model/": {"model": "pilot:other"},
        "/myses/Ada/edit/group/": {"group": "traders"},
        "/myses/Ada/edit/pins/": {"text": "Sell all."},
        "/myses/Ada/edit/budget/": {"tokens": "1"},
        "/myses/Ada/notes/save/": {"name": "ore", "text": "none"},
        "/myses/Ada/notes/forget/": {"name": "ore"},
        "/myses/Ada/command/": {"tool": "undock"},
    }

    def read() -> tuple[Any, ...]:
        mysis = Mysis.objects.values().get()
        return mysis, Memory.objects.count(), Event.objects.count()

    before, viewer = read(), sign_in("viewer")
    answers = {
        path: viewer.post(path, sent, headers=HTMX).status_code
        for path, sent in writes.items()
    }
    assert set(answers.values()) == {403}, answers
    for path in ("/myses/Ada/edit/model/", "/myses/Ada/command/"):
        assert viewer.get(path, headers=HTMX).status_code == 403, path
    assert read() == before


def test_a_message_to_one_and_to_all(
    admin: Client, django_capture_on_commit_callbacks: Any
):
    ada, brahe = make_mysis(name="Ada"), make_mysis(name="Brahe")
    admin.post("/send/", {"to": ada.pk, "text": "one"})
    assert list(Memory.objects.values_list("mysis", "content")) == [(ada.pk, "one")]
    with django_capture_on_commit_callbacks(execute=True):
        answer = admin.post("/send/", {"to": "", "text": "all"}, headers=HTMX)
    assert "Sent to 2 Myses." in answer.content.decode()
    assert Broadcast.objects.get().text == "all"
    assert Memory.objects.filter(mysis=brahe).count() == 1


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"text": ""}, "The message is empty"),
        ({"text": " \n "}, "The message is empty"),
        ({"text": "x" * 100_001}, "at most 100000 characters"),
        ({"to": "999", "text": "x"}, "That Mysis is gone"),
        ({"to": "x", "text": "x"}, "That Mysis is gone"),
    ],
)
def test_a_bad_message_is_refused_in_words(admin: Client, values: Any, words: str):
    make_mysis(name="Ada")
    answer = admin.post("/send/", values, headers=HTMX)
    assert answer.status_code == 422
    assert words in answer.content.decode()
    assert Memory.objects.count() == 0


def test_a_broadcast_to_nobody_is_not_sent(admin: Client):
    make_mysis(name="Ada", state="stopped")
    answer = admin.post("/send/", {"text": "hello"}, headers=HTMX)
    assert answer.status_code == 409
    assert "reach nobody" in answer.content.decode()
    assert not Broadcast.objects.exists()


# -- a new Mysis ------------------------------------------------------------------


def test_a_new_mysis(admin: Client):
    values = {"name": "Ada", "model": "pilot", "max_iterations": "5"}
    answer = admin.post("/myses/new/", {**values, "pins": "one\n\n two "})
    assert answer["Location"] == "/myses/Ada/"
    mysis = Mysis.objects.get()
    assert mysis.state == "idle"
    assert list(mysis.pins.values_list("text", flat=True)) == ["one", "two"]


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "12"}, "name"),
        ({"name": "a/b"}, "name"),
        ({"name": "ada"}, "name"),
        ({"max_iterations": "0"}, "max_iterations"),
        ({"model": ""}, "model"),
        ({"policy": "99"}, "policy"),
    ],
)
def test_errors_stand_at_their_field(admin: Client, values: Any, field: str):
    make_mysis(name="Ada")
    given = {"name": "Brahe", "model": "pilot", "max_iterations": "10", **values}
    answer = admin.post("/myses/new/", given)
    assert answer.status_code == 422
    assert list(answer.context["form"].errors) in ([field], ["__all__"])
    assert Mysis.objects.count() == 1
