"""One search over what stands beside the log, and how many hits there are of each kind."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from agents import actions, events, record_search
from agents.dashboard import search
from agents.events import Kind
from agents.models import Broadcast, Event, Mysis, ToolPolicy
from agents.record_search import count_hits, search_records
from agents.views import hits
from memory.models import HistorySummary
from memory.redaction import HIDDEN
from memory.search import query
from tests.factories import make_memory, make_mysis
from tests.statements import record_statements

pytestmark = pytest.mark.django_db
WHO = "operator:ann"


@pytest.fixture(autouse=True)
def _time_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """No place of a hit is left out where the machine is slow."""
    monkeypatch.setattr(hits, "SECONDS", 60.0)


def call(name: str, arguments: str) -> dict[str, Any]:
    return {
        "id": "1",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


@pytest.fixture
def ada() -> Mysis:
    """A Mysis of which something about iron stands everywhere."""
    ada = make_mysis(name="Ada", state="running")
    make_memory(ada, role="assistant", content="iron", reasoning="iron is dear")
    calls = [call("sell", '{"item": "iron_ore iron"}')]
    make_memory(ada, role="assistant", content="", tool_calls=calls)
    actions.send_order(myses=[ada], text="Sell the iron/ore.", by=WHO)
    Broadcast.objects.create(text="iron for all", sender="mysis:Ada", mysis=ada)
    prompt = actions.get_default_prompt()
    actions.save_prompt(prompt=prompt, text="Mine iron.", by=WHO)
    actions.save_prompt(prompt=prompt, text="Mine copper.", by=WHO)
    actions.update_mysis(mysis=ada, pins=["Never sell iron."], by=WHO)
    HistorySummary.objects.create(
        mysis=ada, first_id=1, through_id=2, generation=1, text="It mined iron."
    )
    events.append_error(ada.pk, "No iron here.")
    return ada


def test_every_kind_is_found_and_counted(ada: Mysis) -> None:
    with record_statements() as queries:
        counts = count_hits(query="iron")
    assert {kind: count.number for kind, count in counts.items()} == {
        "messages": 3,
        "reasoning": 1,
        "calls": 1,
        "orders": 1,
        "events": 2,
        "acts": 1,
        "prompts": 1,
        "summaries": 1,
        "pins": 1,
        "broadcasts": 1,
        "notes": 0,
    }
    assert sum("ARRAY(" in sql for sql in queries) == 2
    for kind in record_search.RECORDS:
        found = search_records(kind, query="iron")
        assert len(found) == counts[kind].number
        assert all("<mark>iron</mark>" in hit.snippet for hit in found)
    exact = count_hits(query="iron", mode="exact")
    assert {k: c.number for k, c in exact.items()} == {
        k: c.number for k, c in counts.items()
    }
    assert search_records("prompts", query="ron.", mode="exact")[0].row.number == 2
    assert not search_records("prompts", query="RON.", mode="exact")
    assert search_records("orders", query='"iron ore" -copper')
    assert not any(
        count.number for count in count_hits(query="iron unobtainium").values()
    )


def test_a_mysis_and_days_narrow_all_kinds(ada: Mysis) -> None:
    brahe = make_mysis(name="Brahe")
    assert not any(
        c.number for c in count_hits(query="iron", mysis_id=brahe.pk).values()
    )
    own = count_hits(query="iron", mysis_id=ada.pk)
    assert [own[kind].number for kind in ("messages", "orders", "pins", "acts")] == [
        3, 1, 1, 1,
    ]  # fmt: skip
    later = timezone.now() + timedelta(days=1)
    assert not any(c.number for c in count_hits(query="iron", since=later).values())
    assert count_hits(query="iron", until=later) == count_hits(query="iron")
    assert count_hits(query="iron", origin="human")["messages"].number == 1


def test_acts_are_those_of_people(ada: Mysis) -> None:
    actions.stop_mysis(mysis=ada, by="token:script")
    events.append(
        Kind.MYSIS_STATE, mysis_id=ada.pk, data={"name": "Ada", "by": "runtime"}
    )
    by_hand = {"tool": "mine", "outcome": "Mined iron", "by": WHO}
    events.append(Kind.TOOL_CALLED, mysis_id=ada.pk, data=by_hand)
    events.append(Kind.TOOL_CALLED, mysis_id=ada.pk, data={"tool": "mine"})
    assert [hit.row.data["by"] for hit in search_records("acts", query="stopped")] == [
        "token:script"
    ]
    assert len(search_records("acts", query="mine")) == 1
    assert len(search_records("events", query="mine")) == 1
    prompt = search_records("acts", query="ann captain")
    assert {hit.row.data["version"] for hit in prompt} == {2, 3}


def test_counts_are_bounded_and_say_so(
    ada: Mysis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query, "MOST_COUNTED", 2)
    monkeypatch.setattr(record_search, "MOST_COUNTED", 2)
    events.append_error(ada.pk, "Still no iron.")
    counts = count_hits(query="iron")
    assert counts["messages"] == (2, True)
    assert counts["events"] == (2, True)
    assert counts["calls"] == (1, False)
    # Letters have no index: only the newest messages are looked at, which is told.
    monkeypatch.setattr(query, "LONGEST_WALK", 1)
    monkeypatch.setattr(record_search, "LETTERS_COUNTED", 1)
    exact = count_hits(query="iron", mode="exact")
    assert (exact["calls"], exact["events"]) == ((0, True), (1, True))


def test_a_slow_count_leaves_the_others(
    ada: Mysis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_search, "ALONE_SECONDS", 2.0)
    spoken = query.build_word_condition

    def slow_in_reasoning(wanted: query.TextQuery, *, scoped: bool) -> str:
        slept = "pg_sleep(20) IS NULL AND " if wanted.field == "reasoning" else ""
        return slept + spoken(wanted, scoped=scoped)

    usual = count_hits(query="iron")
    monkeypatch.setattr(query, "build_word_condition", slow_in_reasoning)
    del usual["reasoning"]
    assert count_hits(query="iron") == usual


def test_what_is_hidden_is_neither_found_nor_counted(ada: Mysis) -> None:
    ToolPolicy.objects.create(tool="whisper", policy="secret")
    calls = [call("whisper", '{"text": "abracadabra"}')]
    make_memory(ada, role="assistant", content="", tool_calls=calls)
    for mode in ("fts", "exact"):
        counts = count_hits(query="abracadabra", mode=mode)
        assert not any(count.number for count in counts.values())
    secret = "password: s3cret-s3cret-s3cret"
    actions.send_order(myses=[ada], text=f"iron {secret}", by=WHO)
    (hit, *_) = search_records("orders", query="iron")
    assert HIDDEN in hit.snippet
    assert "s3cret" not in hit.snippet


def test_the_page_leads_to_each_kind(ada: Mysis, client: Client) -> None:
    client.force_login(User.objects.create_user("eve"))
    page = client.get("/search/?q=iron").content.decode()
    assert "Acts of people <span" in page
    for where, (begin, end) in {
        "calls": ("/myses/Ada/?at=", ""),
        "orders": ("/orders/", "#text"),
        "prompts": ("?before=3&", "#v2"),
        "summaries": ("/myses/Ada/context/?folded=", "#summary-"),
        "pins": ("/myses/Ada/context/?found=", "#pin-"),
        "events": ("/events/", f"#event-{Event.objects.latest('pk').pk}"),
        "acts": ("/events/?before=", "#event-"),
    }.items():
        answer = client.get("/search/", {"q": "iron", "where": where})
        (hit, *_) = answer.context["results"]
        assert begin in hit.link
        assert end in hit.link
        assert client.get(hit.link).status_code == 200
    # The prompt's page opens on the version that was found.
    prompts = client.get("/search/?q=iron&where=prompts").context["results"]
    shown = client.get(prompts[0].link).content.decode()
    assert shown.index("Mine <mark>iron</mark>.") < shown.index("Version 1<")


def test_hits_are_walked_on_the_page_of_the_mysis(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.force_login(User.objects.create_user("eve"))
    ada, brahe = make_mysis(name="Ada"), make_mysis(name="Brahe")
    rows = [make_memory(one, content="iron") for one in (ada, brahe, ada, brahe, ada)]
    links = [one.link for one in client.get("/search/?q=iron").context["results"]]
    page = client.get(links[1])
    hit = page.context["hit_walk"].place
    assert (hit.number, hit.total, hit.more) == (2, 5, False)
    assert (hit.newer, hit.older) == (links[0], links[2])
    text = page.content.decode()
    assert "2 of 5" in text
    assert "<mark>iron</mark>" in text
    assert "line-place" in text
    # What comes meanwhile changes no number.
    make_memory(ada, content="iron")
    assert find_place(client, links[1]) == hit
    monkeypatch.setattr(search, "ASKED", 2)
    # Behind those that were looked at the numbers go on.
    hit, numbers, last = find_place(client, links[0]), [], ""
    while hit:
        numbers.append((hit.number, hit.total, hit.more))
        last = hit.older or last
        hit = find_place(client, hit.older) if hit.older else None
    assert numbers == [
        (1, 2, True), (2, 2, True), (3, 4, True), (4, 4, True), (5, 5, False),
    ]  # fmt: skip
    # And back again, with what came meanwhile before all of them.
    hit = find_place(client, last)
    back: list[tuple[int, str]] = []
    while hit.newer and len(back) < 9:
        back.append((hit.number, hit.newer.split("&")[0]))
        hit = find_place(client, hit.newer)
    at = [link.split("&")[0] for link in links]
    assert back == [(5, at[3]), (4, at[2]), (3, at[1]), (2, at[0])]
    place = f"/myses/Ada/?at={rows[0].pk}"
    assert "hit_walk" not in client.get(place).context
    gone = client.get(f"{place}&found={rows[0].pk}&found-q=copper")
    assert gone.context["hit_walk"].place is None
    assert "no hit of the search any more" in gone.content.decode()
    # Nobody is told of hits who is not signed in.
    client.logout()
    answer = client.get(f"/sign-in/?found={rows[0].pk}&found-q=iron")
    assert "hit-walk" not in answer.content.decode()


def find_place(client: Client, link: str) -> Any:
    """What the page behind the link of a hit says of its place."""
    answer = client.get(link)
    assert answer.status_code == 200
    return answer.context["hit_walk"].place
