"""The search page: its filters, its pages, and the way back to the place."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from agents import actions
from agents.dashboard import accounts
from agents.dashboard import search as dashboard_search
from agents.models import Broadcast
from agents.views import logs
from agents.views import mysis as views_mysis
from memory.models import Memory, Note
from tests.factories import make_account, make_memory, make_mysis, make_turn

pytestmark = pytest.mark.django_db


@pytest.fixture
def viewer(client: Client) -> Client:
    client.force_login(User.objects.create_user("eve"))
    return client


def search(client: Client, **query: Any) -> Any:
    answer = client.get("/search/", {"q": "iron", **query})
    assert answer.status_code == 200
    return answer.context


def test_broadcasts_are_of_one_mysis_and_lead_to_their_place(viewer: Client):
    ada, brahe = make_mysis(name="Ada"), make_mysis(name="Brahe")
    both = Broadcast.objects.create(text="iron for all", sender="operator:ann")
    for mysis in (ada, brahe):
        make_memory(mysis, content=both.text, origin="broadcast", broadcast=both)
    Broadcast.objects.create(text="iron for nobody", sender="operator:ann")
    assert len(search(viewer, where="broadcasts")["results"]) == 2
    [hit] = search(viewer, where="broadcasts", mysis=brahe.pk)["results"]
    place = Memory.objects.get(mysis=brahe)
    assert (hit.mysis.page_key, hit.memory) == ("Brahe", place.pk)
    page = viewer.get("/search/?q=iron&where=broadcasts").content.decode()
    assert f"/myses/Ada/?at={Memory.objects.get(mysis=ada).pk}" in page
    assert "Nobody has it in memory." in page


def test_a_page_of_long_messages_has_fewer(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
):
    """All are found all the same, page by page and from hit to hit."""
    monkeypatch.setattr(dashboard_search, "PAGE_BYTES", 25)
    ada = make_mysis(name="Ada")
    rows = [make_memory(ada, content=f"iron {'x' * 15}").pk for _ in range(5)]
    pages: list[list[int]] = []
    back: list[str] = []
    older, links = None, []
    while not pages or older:
        found = search(viewer, **({"before": older} if older else {}))
        pages.append([hit.id for hit in found["results"]])
        links += [hit.link for hit in found["results"]]
        older = found["older"]
    newest = rows[::-1]
    assert [page for page in pages if page] == [newest[:2], newest[2:4], newest[4:]]
    walked, link = [], links[0]
    while link:
        walked.append(link)
        link = viewer.get(link).context["hit_walk"].place.older
    place = [link.partition("&")[0] for link in links]
    assert [link.partition("&")[0] for link in walked] == place
    link = walked[-1]
    while link and len(back) < 9:
        back.append(link.partition("&")[0])
        link = viewer.get(link).context["hit_walk"].place.newer
    assert back == place[::-1]


def test_a_full_page_is_told_from_one_with_more_behind_it(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(dashboard_search, "ASKED", 5)
    mysis = make_mysis(name="Ada")
    for _ in range(4):
        make_memory(mysis, content="iron")
    assert (search(viewer)["counted"], search(viewer)["full"]) == (4, False)
    make_memory(mysis, content="iron")
    assert "5 or more matches" in viewer.get("/search/?q=iron").content.decode()


def test_matches_are_from_somebody_and_of_some_days(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(dashboard_search, "ASKED", 3)
    mysis, now = make_mysis(name="Ada"), timezone.now()
    rows = [make_memory(mysis, content=f"iron {days}") for days in (9, 6, 3, 0)]
    for row, days in zip(rows, (9, 6, 3, 0), strict=True):
        Memory.objects.filter(pk=row.pk).update(created_at=now - timedelta(days=days))

    def found(**query: Any) -> list[int]:
        return [hit.id for hit in search(viewer, **query)["results"]]

    def day(days: int) -> str:
        return str(timezone.localdate() - timedelta(days=days))

    assert found(since=day(6)) == [row.pk for row in (rows[3], rows[2], rows[1])]
    assert found(until=day(3)) == [row.pk for row in (rows[2], rows[1], rows[0])]
    assert found(since=day(7), until=day(4)) == [rows[1].pk]
    make_memory(mysis, content="iron", role="assistant")
    # Only those that are from somebody are looked through, as they are counted.
    for _ in range(3):
        make_memory(mysis, content="iron", role="assistant")
    assert found(origin="human") == [rows[3].pk, rows[2].pk, rows[1].pk]
    [messages, *_] = search(viewer, origin="human")["chips"]
    assert messages[2] == "4"
    older = search(viewer, origin="human")["older"]
    behind = search(viewer, origin="human", before=older)
    assert [hit.id for hit in behind["results"]] == [rows[0].pk]
    assert behind["newest"]
    assert found(origin="agent", since=day(0))[0] > rows[3].pk


def test_notes_and_broadcasts_of_some_days_are_all_found(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
):
    """Also those that lie behind many others by their ids, as the chips count them."""
    monkeypatch.setattr(dashboard_search, "ASKED", 2)
    mysis, old = make_mysis(name="Ada"), timezone.now() - timedelta(days=9)
    for number in range(4):
        written = old if number == 0 else timezone.now()
        Note.objects.create(
            mysis=mysis,
            name=f"n{number}",
            version=1,
            text="iron",
            author="operator:ann",
            written_at=written,
        )
        row = Broadcast.objects.create(text="iron", sender="operator:ann")
        if number == 0:
            Broadcast.objects.filter(pk=row.pk).update(created_at=old)
    until = str(timezone.localdate() - timedelta(days=5))
    for where in ("notes", "broadcasts"):
        shown = search(viewer, where=where, until=until)
        assert len(shown["results"]) == 1, where
        assert [chip[2] for chip in shown["chips"] if chip[3]] == ["1"], where


def test_long_lists_go_on_behind_their_first_page(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(views_mysis, "PAGE", 2)
    monkeypatch.setattr(accounts, "ACCOUNTS_A_PAGE", 2)
    monkeypatch.setattr(logs, "VERSIONS", 2)
    mysis, prompt = make_mysis(name="Ada"), actions.get_default_prompt()
    for number in range(3):
        make_turn(mysis)
        make_account(username=f"P{number}")
        actions.save_prompt(prompt=prompt, text=f"v{number}", by="x")
    shown = viewer.get("/myses/Ada/turns/").context
    assert [turn.number for turn in shown["turns"]] == [3, 2]
    assert shown["older"] == 2
    older = viewer.get("/myses/Ada/turns/?before=2").context["turns"]
    assert [turn.number for turn in older] == [1]
    page = viewer.get("/accounts/")
    assert [one.account.username for one in page.context["pilots"]] == ["P0", "P1"]
    rest = viewer.get("/accounts/?after=P1").context["pilots"]
    assert [one.account.username for one in rest] == ["P2"]
    versions = viewer.get(f"/prompts/{prompt.pk}/?before=3").context
    assert [one.number for one in versions["versions"]] == [2, 1]
