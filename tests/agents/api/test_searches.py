"""Searches of all kinds over REST: the rows, figures and shapes of the search page."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from agents import actions, events
from agents.forms import SearchForm
from agents.models import Mysis
from memory.models import HistorySummary
from tests.factories import make_memory, make_mysis

pytestmark = pytest.mark.django_db
WHO = "operator:ann"


@pytest.fixture
def ada() -> Mysis:
    """A Mysis of which something about iron stands everywhere."""
    ada = make_mysis(name="Ada", state="running")
    function = {"name": "sell", "arguments": '{"item": "iron ore"}'}
    call = {"id": "1", "type": "function", "function": function}
    make_memory(ada, role="assistant", content="", tool_calls=[call])
    actions.send_order(myses=[ada], text="Sell the iron ore.", by=WHO)
    prompt = actions.get_default_prompt()
    actions.save_prompt(prompt=prompt, text="Mine iron.", by=WHO)
    actions.update_mysis(mysis=ada, pins=["Never sell iron."], by=WHO)
    HistorySummary.objects.create(
        mysis=ada, first_id=1, through_id=2, generation=3, text="It mined iron."
    )
    events.append_error(ada.pk, "No iron <b>here</b>.")
    brahe = make_mysis(name="Brahe", state="running")
    actions.stop_mysis(mysis=brahe, by="token:iron")
    return ada


@pytest.fixture
def viewer(client: Client) -> Client:
    """Signed in with the least role."""
    client.force_login(User.objects.create_user("eve"))
    return client


def ask(viewer: Client, kind: str, **asked: Any) -> Any:
    return viewer.get(f"/api/v1/search/{kind}", {"q": "iron", **asked})


def find(viewer: Client, kind: str, **asked: Any) -> list[dict[str, Any]]:
    answer = ask(viewer, kind, **asked)
    assert answer.status_code == 200, answer.content
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


def test_every_kind_of_the_page_is_found_over_rest(ada: Mysis, viewer: Client) -> None:
    counts = ask(viewer, "counts").json()["items"]
    for kind, _ in SearchForm.WHERE:
        page = viewer.get("/search/", {"q": "iron", "where": kind})
        items = find(viewer, kind)
        shown = [str(hit.snippet) for hit in page.context["results"]]
        assert [one["snippet"] for one in items] == shown, kind
        assert {"kind": kind, "count": len(items), "more": False} in counts
        for wrong in ({"q": ""}, {"q": " "}, {"limit": 101}, {"before": "x"}):
            assert ask(viewer, kind, **wrong).status_code == 422, wrong
        assert ask(viewer, kind, mysis="Bob").status_code == 404
        assert Client().get(f"/api/v1/search/{kind}?q=iron").status_code == 401


def test_hits_tell_what_they_are_of(ada: Mysis, viewer: Client) -> None:
    [call] = find(viewer, "calls")
    assert "called sell" in call["content"]
    [order] = find(viewer, "orders", mysis="Ada")
    assert (order["by"], order["mysis"]) == (WHO, None)
    assert order["text"] == "Sell the iron ore."
    assert order["snippet"] == "Sell the <mark>iron</mark> ore."
    [summary] = find(viewer, "summaries")
    assert (summary["generation"], summary["status"]) == (3, "active")
    [pin] = find(viewer, "pins")
    assert (pin["mysis"], pin["text"]) == (ada.pk, "Never sell iron.")
    [version] = find(viewer, "prompts")
    assert (version["name"], version["version"]) == ("captain", 2)
    error = next(one for one in find(viewer, "events") if one["kind"] == "error")
    assert "&lt;b&gt;here" in error["snippet"]
    assert (error["by"], error["mysis"]) == (None, ada.pk)
    acts = find(viewer, "acts")
    assert {one["by"] for one in acts} == {WHO, "token:iron"}


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ("selling", {"stem": True}),
        ("-copper", {"stem": True}),
        ("SELL", {"mode": "exact", "ignore_case": True}),
    ],
)
def test_as_many_are_counted_as_are_found(
    query: str, options: dict[str, Any], ada: Mysis, viewer: Client
) -> None:
    make_memory(ada, content="It sold and sells.", reasoning="Selling is good.")
    make_memory(ada, role="assistant", content="copper")
    actions.send_broadcast(text="Sell here.", by=WHO)
    counts = ask(viewer, "counts", q=query, **options).json()["items"]
    found = {
        kind: len(find(viewer, kind, q=query, limit=100, **options))
        for kind, _ in SearchForm.WHERE
    }
    assert {one["kind"]: one["count"] for one in counts} == found
    assert sum(found.values()) > 2
