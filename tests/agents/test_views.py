"""The pages and their forms, as a client without a script sees them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils.html import escape

from agents import actions, events
from agents.dashboard.addresses import RESERVED
from agents.events import Kind
from agents.models import Broadcast, Event, Mysis, Prompt, PromptVersion
from agents.templatetags.zoea import marked
from memory.models import Memory
from tests.browser import scenes
from tests.factories import make_memory, make_mysis, make_turn

HTMX = {"HX-Request": "true"}


@pytest.fixture
def sign_in(db: None) -> Callable[..., Client]:
    """A client of somebody with a role."""

    def signed(role: str = "admin", **options: Any) -> Client:
        staff = role in ("admin", "operator")
        user = User.objects.create_user(
            role, is_staff=staff, is_superuser=role == "admin"
        )
        client = Client(**options)
        client.force_login(user)
        return client

    return signed


@pytest.fixture
def admin(sign_in: Callable[..., Client]) -> Client:
    """Somebody who may do everything."""
    return sign_in()


PAGES = ["/", "/events/", "/prompts/", "/search/", "/search/?q=x"]


@pytest.mark.parametrize("page", PAGES)
def test_pages_need_a_sign_in(page: str, db: None):
    answer = Client().get(page)
    assert answer.status_code == 302
    assert answer["Location"].startswith("/sign-in/?next=")


def test_every_page_opens_on_an_empty_database(admin: Client):
    for page in (*PAGES, "/myses/new/"):
        assert admin.get(page).status_code == 200, page


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


# -- reading ----------------------------------------------------------------------


def test_a_long_history_opens_on_its_newest_page(
    admin: Client, django_assert_max_num_queries: Any
):
    mysis = make_mysis(name="Ada")
    rows = [make_memory(mysis, content=f"order {n}.") for n in range(120)]
    with django_assert_max_num_queries(25):
        page = admin.get("/myses/Ada/").content.decode()
    assert "order 119." in page
    assert "order 69." not in page
    older = f"/myses/Ada/messages/?before={rows[70].pk}"
    assert older in page
    part = admin.get(older, headers=HTMX).content.decode()
    assert "order 69." in part
    assert "order 70." not in part
    assert "<html" not in part
    assert "<html" in admin.get(older).content.decode()


def test_a_huge_result_is_cut_and_can_be_read_whole(admin: Client):
    mysis = make_mysis(name="Ada")
    row = make_memory(mysis, role="tool", content="<b>" + "x" * 500_000 + "END")
    answer = admin.get("/myses/Ada/")
    assert len(answer.content) < 60_000
    whole = admin.get(f"/myses/Ada/messages/{row.pk}/")
    assert whole["Content-Type"] == "text/plain; charset=utf-8"
    assert whole["X-Content-Type-Options"] == "nosniff"
    assert whole.content.decode() == row.content
    other = make_mysis(name="Brahe")
    assert admin.get(f"/myses/{other.name}/messages/{row.pk}/").status_code == 404


def test_search_marks_and_links(admin: Client):
    mysis = make_mysis(name="Ada")
    row = make_memory(mysis, content=f"iron ore {scenes.HOSTILE}", reasoning="gold")
    page = admin.get("/search/?q=iron").content.decode()
    assert "<mark>iron</mark> ore &lt;script&gt;" in page
    assert f"/myses/Ada/?at={row.pk}#line-{row.pk}" in page
    assert "Nothing found." in admin.get("/search/?q=gold").content.decode()
    page = admin.get("/search/?q=gold&where=reasoning").content.decode()
    assert "<mark>gold</mark>" in page
    other = make_mysis(name="Brahe")
    page = admin.get(f"/search/?q=iron&mysis={other.pk}").content.decode()
    assert "Nothing found." in page
    page = admin.get("/search/?q=IRON&mode=exact").content.decode()
    assert "Nothing found." in page


def test_search_pages_on(admin: Client):
    mysis = make_mysis(name="Ada")
    for number in range(30):
        make_memory(mysis, content=f"iron {number}.")
    first = admin.get("/search/?q=iron")
    assert len(first.context["results"]) == 20
    second = admin.get(f"/search/?{first.context['older']}")
    assert [hit.snippet for hit in second.context["results"]][-1].endswith(" 0.")
    assert not second.context["older"]


def test_broadcasts_are_found_once(admin: Client):
    for name in ("Ada", "Brahe"):
        make_mysis(name=name)
    admin.post("/send/", {"text": "sell the iron"})
    found = admin.get("/search/?q=iron&where=broadcasts").context["results"]
    assert [hit.who for hit in found] == ["admin"]


@pytest.mark.parametrize(
    ("snippet", "shown"),
    [
        ("a <mark>b</mark> c", "a <mark>b</mark> c"),
        ("&lt;i&gt; <mark>&lt;b&gt;</mark>", "&lt;i&gt; <mark>&lt;b&gt;</mark>"),
        ("<img src=x> <mark><i></mark>", "&lt;img src=x&gt; <mark>&lt;i&gt;</mark>"),
        ("<mark>open", "&lt;mark&gt;open"),
        ("", ""),
    ],
)
def test_only_marks_are_html(snippet: str, shown: str):
    assert marked(snippet) == shown


def test_the_events_page_pages_in_stream_order(admin: Client):
    for number in range(130):
        events.append(Kind.ERROR, data={"detail": f"no. {number}."})
    first = admin.get("/events/")
    texts = [line.text for line in first.context["lines"]]
    assert texts[0] == "no. 129."
    assert len(texts) == 100
    second = admin.get(f"/events/?before={first.context['next']}")
    texts += [line.text for line in second.context["lines"]]
    assert texts == [f"no. {n}." for n in reversed(range(130))]


def test_prompts_show_their_versions(admin: Client):
    prompt = Prompt.objects.create(name="captain")
    for number in (1, 2):
        text = f"You fly. <{number}>"
        PromptVersion.objects.create(prompt=prompt, number=number, text=text)
    make_mysis(name="Ada", prompt=prompt)
    page = admin.get("/prompts/").content.decode()
    assert "You fly. &lt;2&gt;" in page
    assert "/myses/Ada/" in page
    page = admin.get(f"/prompts/{prompt.pk}/").content.decode()
    assert "You fly. &lt;1&gt;" in page


# -- contexts ----------------------------------------------------------------------


def test_the_next_context_as_json_is_what_the_page_shows(admin: Client):
    mysis = make_mysis(name="Ada")
    scenes.talk(mysis)
    shown = admin.get("/myses/Ada/context/").context["shown"]
    raw = admin.get("/myses/Ada/context/?format=json").json()
    assert [m["role"] for m in raw["messages"]] == [b.role for b in shown.blocks]
    assert raw["messages"][0]["content"] == shown.blocks[0].text
    assert len(shown.ledger) == 7


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("strategy=nonsense", "strategy"),
        ("window=0", "window"),
        ("budget=x", "budget"),
        ("strategy=full&window=3", "window"),
    ],
)
def test_a_what_if_that_cannot_be_says_why(admin: Client, query: str, field: str):
    make_mysis(name="Ada")
    answer = admin.get(f"/myses/Ada/context/?{query}")
    assert answer.status_code == 422
    assert list(answer.context["form"].errors) == [field]


def test_what_ifs_change_the_context_and_nothing_else(admin: Client):
    mysis = make_mysis(name="Ada")
    scenes.talk(mysis, exchanges=12)
    before = Event.objects.count(), Memory.objects.count()
    wide = admin.get("/myses/Ada/context/").context["shown"]
    narrow = admin.get("/myses/Ada/context/?window=4").context["shown"]
    assert len(narrow.blocks) < len(wide.blocks)
    assert dict(narrow.counts)["out_of_window"] > 0
    small = admin.get("/myses/Ada/context/?budget=50").context["shown"]
    assert small.stats["status"] == "budget_impossible"
    assert (Event.objects.count(), Memory.objects.count()) == before


def test_a_turn_shows_its_messages(admin: Client):
    mysis = make_mysis(name="Ada")
    scenes.talk(mysis)
    other = make_turn(mysis, outcome="errored", error="502 <b>")
    page = admin.get(f"/turns/{mysis.turns.earliest('pk').pk}/").content.decode()
    assert "get_status" in page
    assert f"/turns/{other.pk}/" in page
    page = admin.get(f"/turns/{other.pk}/").content.decode()
    assert "502 &lt;b&gt;" in page


def test_what_is_chosen_by_default_is_named(admin: Client):
    actions.default_prompt()
    form = admin.get("/myses/new/").content.decode()
    assert form.count("captain") == 1
    assert "captain (default)" in form
    filters = admin.get("/events/").content.decode()
    assert 'aria-current="true">All</a>' in filters
    assert ">all Myses<" in filters
