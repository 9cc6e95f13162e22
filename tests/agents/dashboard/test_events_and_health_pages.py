"""The pages of events and of health as they change, and the counts on chips."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from agents import events
from agents.consumers import dashboard
from agents.dashboard.live import events_page, pages
from agents.dashboard.live.changes import Dirty
from agents.dashboard.live.events_page import EventFilter, EventsPage
from agents.events import START, Kind
from agents.models import Event
from tests.factories import make_mysis
from tests.statements import record_statements

SHOWN = re.compile(r'data-event="(\d+)"')


def tell(count: int, kind: Kind = Kind.ERROR, mysis: int | None = None) -> list[str]:
    """So many events; their ids as a page has them, newest first."""
    for number in range(count):
        events.append(kind, mysis_id=mysis, data={"detail": f"no. {number}."})
    newest = Event.objects.order_by("-pk").values_list("pk", flat=True)[:count]
    return [str(pk) for pk in newest]


def shown(page: EventsPage) -> list[str]:
    """The events that a look at everything brings."""
    return SHOWN.findall("".join(page.draw_changes(Dirty(everything=True))))


@pytest.mark.django_db(transaction=True)
def test_events_come_once_each_in_order_and_only_those_that_were_asked_for():
    ada, brahe = make_mysis(name="Ada"), make_mysis(name="Brahe")
    tell(3, mysis=ada.pk)
    everything = EventsPage(EventFilter.read("", None), events.read_settled_end().id)
    chosen = EventsPage(EventFilter.read("error", ada.pk), events.read_settled_end().id)
    odd = EventsPage(
        EventFilter.read("no such kind", None), events.read_settled_end().id
    )
    assert shown(everything) == []
    mine = tell(2, mysis=ada.pk)
    others = tell(1, mysis=brahe.pk) + tell(1, Kind.TURN_STARTED, ada.pk)
    assert shown(everything) == [*others[::-1], *mine]
    assert shown(chosen) == mine
    assert len(shown(odd)) == 4
    assert shown(everything) == shown(chosen) == []


@pytest.mark.django_db(transaction=True)
def test_more_than_a_page_at_once_begins_anew():
    tell(1)
    page = EventsPage(EventFilter(), events.read_settled_end().id)
    newest = tell(events_page.PAGE + 5)
    swap = "".join(page.draw_all(START))
    assert 'hx-swap-oob="innerHTML"' in swap
    assert SHOWN.findall(swap) == newest[: events_page.PAGE]
    assert shown(page) == []


@pytest.mark.django_db(transaction=True)
def test_the_events_page_hands_over_to_its_socket(
    client: Client, django_user_model: Any
):
    client.force_login(django_user_model.objects.create_user("ann"))
    assert "No such event" in client.get("/events/").content.decode()
    [newest] = tell(1)
    html = client.get("/events/?kind=error").content.decode()
    query = re.search(r'ws-connect="/ws/dashboard/\?([^"]+)"', html)
    assert query is not None
    page = dashboard.make_page(query[1].replace("&amp;", "&").encode())
    assert isinstance(page, EventsPage)
    assert page.chosen == EventFilter("error")
    assert shown(page) == []
    assert SHOWN.findall(
        "".join(tell(1) and page.draw_changes(Dirty(everything=True)))
    ) != [newest]
    # Older pages stand still.
    old = client.get(f"/events/?before={newest}").content.decode()
    assert "ws-connect" not in old
    part = client.get("/events/", headers={"hx-request": "true"}).content.decode()
    assert "<html" not in part
    assert newest in part


@pytest.fixture
def moments(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the clock of the shared work says; the last one counts."""
    told = [timezone.now() + timedelta(days=1)]
    monkeypatch.setattr(timezone, "now", lambda: told[-1])
    return told


def test_health_is_looked_at_every_ten_seconds(db: None, moments: list[Any]):
    page = pages.TimedPage("health", pages.draw_health_parts)
    first = "".join(page.draw_all(START))
    for name in pages.HEALTH_PARTS:
        assert f'id="health-{name}"' in first
    make_mysis(name="Ada", state="errored", last_error="Broken <wire>.")
    assert page.draw_changes(Dirty()) == []
    moments.append(moments[0] + timedelta(seconds=11))
    with record_statements() as asked:
        later = "".join(page.draw_changes(Dirty()))
    # What stands still on the page is not measured anew.
    assert not [sql for sql in asked if "_size(" in sql]
    assert "Broken &lt;wire&gt;." in later
    assert 'id="health-models"' not in later


def test_chips_count_the_newest(db: None, moments: list[Any]):
    tell(2)
    events.append(Kind.TOOL_CALLED, data={"tool": "get_status", "ok": True})
    events.append(Kind.TOOL_CALLED, data={"tool": "get_status", "ok": False})
    events.append(Kind.TOOL_CALLED, data={"tool": "mine", "ok": True})
    events.append(Kind.SNAPSHOT_STALE, data={"tool": "x", "confidence": "ageing"})
    moments.append(moments[0] + timedelta(days=1))
    found = events_page.count_newest()
    assert (found.kinds["error"], found.kinds["tool.called"]) == (2, 3)
    # Looking is no news unless it failed, growing old never.
    assert found.groups == {"acts": 2, "bad": 3}
