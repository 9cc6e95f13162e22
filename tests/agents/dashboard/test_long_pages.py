"""What pages show of long histories, searches, events, prompts and contexts."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from agents import actions, events
from agents.events import Kind
from agents.models import Event, Prompt, PromptVersion
from agents.templatetags.zoea import marked
from memory.models import Memory
from tests.browser import scenes
from tests.factories import make_memory, make_mysis, make_turn

HTMX = {"HX-Request": "true"}


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
    assert f"/myses/Ada/?at={row.pk}&amp;found={row.pk}&amp;found-q=iron" in page
    assert "Nothing found." in admin.get("/search/?q=gold").content.decode()
    page = admin.get("/search/?q=gold&where=reasoning").content.decode()
    assert "<mark>gold</mark>" in page
    other = make_mysis(name="Brahe")
    page = admin.get(f"/search/?q=iron&mysis={other.pk}").content.decode()
    assert "Nothing found." in page
    page = admin.get("/search/?q=IRON&mode=exact").content.decode()
    assert "Nothing found." in page


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
    # The current one has nothing to be made current again.
    newest, older = page.split('class="panel version"')[1:]
    assert "make it current again" not in newest
    assert "make it current again" in older


def test_the_prompt_for_summaries_is_used_by_all_of_them(admin: Client):
    actions.get_default_prompt()
    prompt = Prompt.objects.get(name="summarization")
    for address in ("/prompts/", f"/prompts/{prompt.pk}/"):
        assert "Used by every summary" in admin.get(address).content.decode()


def test_the_next_context_as_json_is_what_the_page_shows(admin: Client):
    mysis = make_mysis(name="Ada")
    scenes.add_conversation(mysis)
    shown = admin.get("/myses/Ada/context/").context["shown"]
    raw = admin.get("/myses/Ada/context/?format=json").json()
    assert [m["role"] for m in raw["messages"]] == [b.role for b in shown.blocks]
    assert raw["messages"][0]["content"] == shown.blocks[0].text
    assert len(shown.ledger) == 7


def test_what_ifs_change_the_context_and_nothing_else(admin: Client):
    mysis = make_mysis(name="Ada")
    scenes.add_conversation(mysis, exchanges=12)
    before = Event.objects.count(), Memory.objects.count()
    wide = admin.get("/myses/Ada/context/").context["shown"]
    narrow = admin.get("/myses/Ada/context/?window=4").context["shown"]
    assert len(narrow.blocks) < len(wide.blocks)
    assert dict(narrow.counts)["out_of_window"] > 0
    small = admin.get("/myses/Ada/context/?budget=50").context["shown"]
    assert small.document["stats"]["status"] == "budget_impossible"
    assert (Event.objects.count(), Memory.objects.count()) == before


def test_a_turn_shows_its_messages(admin: Client):
    mysis = make_mysis(name="Ada")
    scenes.add_conversation(mysis)
    other = make_turn(mysis, outcome="errored", error="502 <b>")
    page = admin.get(f"/turns/{mysis.turns.earliest('pk').pk}/").content.decode()
    assert "get_status" in page
    assert f"/turns/{other.pk}/" in page
    page = admin.get(f"/turns/{other.pk}/").content.decode()
    assert "502 &lt;b&gt;" in page
