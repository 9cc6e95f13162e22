"""The context page says when what it shows is outdated, and by how much."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client
from django.utils import timezone

from agents import actions, events
from agents.consumers.dashboard import make_page
from agents.dashboard.live import context_page
from agents.dashboard.live.changes import Dirty
from agents.dashboard.live.context_page import ContextPage
from agents.events import START, Kind
from agents.models import Mysis, Pin
from agents.tool_catalogue import remember_tools
from agents.tools.own_tools import FOR_MYSES
from memory.models import ContextPolicy, TokenCalibration
from tests.factories import make_memory, make_mysis, make_turn

# A transaction's own events are not settled before it ends.
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def mysis() -> Iterator[Mysis]:
    yield make_mysis(name="Ada", state="running")


def opened(mysis: Mysis) -> ContextPage:
    """The socket's page for a context that was assembled now."""
    found = context_page.note_moment(mysis)
    return ContextPage(mysis, found.event, found.settings)


def told(page: ContextPage) -> str:
    """What it sends when it looks at everything, as text."""
    swaps = page.draw_changes(Dirty(everything=True))
    return re.sub(r"<[^>]*>", "", " ".join(swaps)).strip()


def write(mysis: Mysis, kind: Kind, **data: object) -> None:
    events.append(kind, mysis_id=mysis.pk, data=data)


def test_nothing_new_says_nothing(mysis: Mysis):
    write(mysis, Kind.MEMORY_ADDED, memory_id=1)
    page = opened(mysis)
    assert re.sub(r"<[^>]*>", "", "".join(page.draw_all(START))) == ""
    assert told(page) == ""


def test_what_is_written_afterwards_is_counted_once(mysis: Mysis):
    page = opened(mysis)
    page.draw_all(START)
    turn = make_turn(mysis)
    row = make_memory(mysis, role="tool", pending=True)
    write(mysis, Kind.TURN_STARTED, turn=turn.pk)
    for _ in range(2):
        # Its call is told of, then its answer.
        write(mysis, Kind.MEMORY_ADDED, memory_id=row.pk)
    write(mysis, Kind.MEMORY_ADDED, memory_id=row.pk + 1)
    write(mysis, Kind.SNAPSHOT_UPDATED, tool="get_ship", args={})
    write(mysis, Kind.TOOL_CALLED, tool="get_ship")
    first = page.draw_changes(Dirty(myses={mysis.pk: 1}))
    assert "Outdated" in first[0]
    assert "1 turn, 2 messages, 1 snapshot new." in first[1]
    write(mysis, Kind.TURN_FINISHED, turn=turn.pk)
    write(mysis, Kind.CONTEXT_COMPACTED, summary=1)
    again = page.draw_changes(Dirty(myses={mysis.pk: 2}))
    # The announcement is not made twice; the count goes on.
    assert len(again) == 1
    assert "1 turn, 2 messages, 1 snapshot, 1 summary new." in again[0]


def test_what_others_write_is_no_news(mysis: Mysis):
    page = opened(mysis)
    page.draw_all(START)
    write(make_mysis(), Kind.MEMORY_ADDED, memory_id=1)
    assert page.draw_changes(Dirty(myses={mysis.pk + 1: 1})) == []
    assert told(page) == ""


def test_other_settings_are_told(mysis: Mysis):
    page = opened(mysis)
    page.draw_all(START)
    policy = ContextPolicy.objects.create(name="small", budget_tokens=20_000)
    actions.update_mysis(mysis=mysis, by="ann", policy=policy)
    assert "its settings or prompt changed" in told(page)


def test_what_is_learnt_by_itself_is_no_change_of_settings(mysis: Mysis):
    remember_tools([FOR_MYSES["zoea_search_messages"].spec])
    page = opened(mysis)
    page.draw_all(START)
    TokenCalibration.objects.create(model=mysis.model, used=2.0, factor=2.0, error=0.1)
    soon = timezone.now() + timedelta(hours=1)
    narrow = {"view_tokens": 900, "view_model": mysis.model, "view_until": soon}
    Mysis.objects.update(**narrow)
    assert told(page) == ""


@pytest.mark.parametrize("what", ["policy", "pin", "model", "tools"])
def test_what_somebody_sets_is_a_change(mysis: Mysis, what: str):
    policy = ContextPolicy.objects.create(name="small", budget_tokens=20_000)
    mysis = actions.update_mysis(mysis=mysis, by="ann", policy=policy)
    page = opened(mysis)
    page.draw_all(START)
    if what == "policy":
        ContextPolicy.objects.update(budget_tokens=30_000)
    elif what == "pin":
        Pin.objects.create(mysis=mysis, text="Stay.")
    elif what == "model":
        Mysis.objects.update(model="other:one")
    else:
        remember_tools([FOR_MYSES["zoea_search_messages"].spec])
    assert "its settings or prompt changed" in told(page)


def test_an_edited_prompt_is_told_at_once(mysis: Mysis):
    prompt = actions.get_default_prompt()
    mysis = actions.update_mysis(mysis=mysis, by="ann", prompt=prompt)
    page = opened(mysis)
    page.draw_all(START)
    actions.save_prompt(prompt=prompt, text="Another.", by="ann")
    dirty = Dirty()
    [(_, item)] = events.read_from(events.START, kinds=["prompt.changed"], limit=9)[-1:]
    dirty.add(item)
    assert "its settings or prompt changed" in "".join(
        page.draw_changes(dirty.hand_out(9))
    )


def test_a_deleted_mysis_is_told(mysis: Mysis):
    page = opened(mysis)
    page.draw_all(START)
    actions.delete_mysis(mysis=mysis, by="system")
    # Aloud, unlike a context that is outdated.
    sent = " ".join(page.draw_changes(Dirty(everything=True)))
    gone = sent.partition('id="context-gone"')[2].partition('id="')[0]
    assert "This Mysis was deleted." in gone


def test_the_page_says_as_of_when_and_its_socket_knows(admin: Client, mysis: Mysis):
    row = make_memory(mysis)
    mysis.tick = 4711
    mysis.save()
    write(mysis, Kind.MEMORY_ADDED, memory_id=row.pk)
    answer = admin.get("/myses/Ada/context/?window=4")
    text = answer.content.decode()
    assert f"#{row.pk}</a>" in text
    assert "4,711" in text
    assert re.search(r'id="context-gone"[^>]*role="status"', text)
    assert 'id="context-refresh" href="/myses/Ada/context/?window=4"' in text
    [socket] = re.findall(r'ws-connect="([^"]+)"', text)
    query = urlsplit(socket.replace("&amp;", "&")).query
    assert parse_qs(query)["event"] == [str(events.read_settled_end().id)]
    page = make_page(query.encode())
    assert isinstance(page, ContextPage)
    page.draw_all(START)
    write(mysis, Kind.MEMORY_ADDED, memory_id=row.pk + 1)
    assert "1 message new." in told(page)


@pytest.mark.parametrize("query", ["page=context&mysis=1", "page=context&event=1"])
def test_a_socket_without_its_page_is_refused(query: str):
    assert make_page(query.encode()) is None
