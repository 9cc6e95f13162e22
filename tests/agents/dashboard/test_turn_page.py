"""The page of a turn, as it goes on and when it is over."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from agents.consumers.dashboard import make_page
from agents.dashboard.live import turn_page
from agents.dashboard.live.changes import Dirty
from agents.dashboard.live.turn_page import TurnPage
from agents.events import START
from agents.models import ModelCall, Mysis, Turn
from tests.factories import make_memory, make_mysis, make_turn


@pytest.fixture
def turn(db: None) -> Turn:
    return make_turn(make_mysis(name="Ada", state="running"))


def call(turn: Turn, number: int, **values: object) -> ModelCall:
    return ModelCall.objects.create(turn=turn, number=number, model="pilot", **values)


def live(turn: Turn) -> TurnPage:
    """The page behind its socket."""
    page = make_page(f"page=turn&turn={turn.pk}&after=0".encode())
    assert isinstance(page, TurnPage)
    return page


def test_a_running_turn_is_live_and_one_that_is_over_is_not(admin: Client, turn: Turn):
    address = f"/turns/{turn.pk}/"
    text = admin.get(address).content.decode()
    assert f"page=turn&amp;turn={turn.pk}" in text
    assert 'id="live-status"' in text
    assert "No model call yet in this turn" in text
    Turn.objects.update(outcome="done")
    text = admin.get(address).content.decode()
    assert "This turn ended before it called a model." in text
    assert "ws-connect" not in text
    assert 'id="live-status"' not in text
    assert "data-live" not in text


def test_calls_and_messages_come_as_they_are_made(turn: Turn):
    page = live(turn)
    first = "".join(page.draw_all(START))
    assert "No model call yet" in first
    call(turn, 1)
    none, calls = page.draw_changes(Dirty())
    assert "No model call yet" not in none
    assert 'hx-swap-oob="beforeend:#log"' in calls
    assert "waiting for the model" in calls
    ModelCall.objects.update(input_tokens=1234, finish_reason="tool_calls")
    make_memory(turn.mysis, role="assistant", turn=turn, content="I mine.")
    make_memory(turn.mysis, content="Not of this turn.")
    found = page.draw_changes(Dirty())
    assert 'id="call-1"' in "".join(found[:-1])
    text = "".join(found)
    assert "1,234 in" in text
    assert "I mine." in text
    assert "Not of this turn." not in text
    call(turn, 2)
    [added] = page.draw_changes(Dirty())
    assert 'hx-swap-oob="beforeend:#log"' in added
    assert 'id="call-2"' in added
    assert page.draw_changes(Dirty()) == []


def test_the_outcome_comes_with_what_was_written_last(turn: Turn):
    page = live(turn)
    page.draw_all(START)
    call(turn, 1)
    make_memory(turn.mysis, role="assistant", turn=turn, content="The end.")
    Turn.objects.update(outcome="errored", error="502 <b>")
    text = "".join(page.draw_changes(Dirty()))
    assert "outcome-errored" in text
    assert "502 &lt;b&gt;" in text
    assert "The end." in text
    assert "no answer" in text
    make_turn(turn.mysis)
    assert page.draw_changes(Dirty()) == []
    assert "Turn 2" in "".join(page.draw_changes(Dirty(everything=True)))


def test_a_turn_that_is_pruned_says_so(turn: Turn):
    page = live(turn)
    page.draw_all(START)
    turn.delete()
    assert "no longer kept" in "".join(page.draw_changes(Dirty()))
    assert page.draw_changes(Dirty()) == []


def test_a_long_turn_is_shown_from_its_end(
    admin: Client, turn: Turn, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("agents.dashboard.live.turn_page.LINES", 3)
    mysis: Mysis = turn.mysis
    rows = [make_memory(mysis, turn=turn, content=f"order {n}.") for n in range(5)]
    text = admin.get(f"/turns/{turn.pk}/").content.decode()
    assert "order 4." in text
    assert "order 1." not in text
    assert "The newest 3 of 5 messages." in text
    assert f"/myses/Ada/?at={rows[0].pk}#line-{rows[0].pk}" in text
    assert "Show more" in text
    text = admin.get(f"/turns/{turn.pk}/?whole=1").content.decode()
    assert "order 0." in text
    monkeypatch.setattr("agents.views.mysis.WHOLE", 4)
    text = admin.get(f"/turns/{turn.pk}/?whole=1").content.decode()
    assert "The newest 4 of 5 messages." in text
    assert "Show more" not in text
    assert "Read them all" in text


def test_an_error_leads_to_its_fix_while_the_mysis_suffers_from_it(
    admin: Client, turn: Turn
):
    words = "pilot: no provider is named and there is no default"
    Turn.objects.update(outcome="errored", error=words)
    address = f"/turns/{turn.pk}/"
    link = 'href="/myses/Ada/edit/model/">Change its model'
    assert link not in admin.get(address).content.decode()
    Mysis.objects.update(last_error=words, last_error_code="model")
    assert link in admin.get(address).content.decode()
    # Another one since: what mends it is not what would have mended this.
    Mysis.objects.update(last_error="The game is out of reach.")
    assert link not in admin.get(address).content.decode()


def read_order(text: str) -> list[str]:
    """The calls and the messages of a page, as they stand on it."""
    return re.findall(r'id="((?:call|summary|line)-\d+)"', text)


def test_calls_messages_and_results_stand_in_the_order_of_time(
    admin: Client, turn: Turn
):
    told = make_memory(turn.mysis, turn=turn, content="Mine.")
    page, order = live(turn), [f"line-{told.pk}"]
    drawn = read_order("".join(page.draw_all(START)))
    for number in (1, 2):
        call(turn, number, finish_reason="tool_calls")
        says = make_memory(turn.mysis, role="assistant", turn=turn, content="I mine.")
        got = make_memory(turn.mysis, role="tool", turn=turn, content="3 ore")
        order += [f"call-{number}", f"line-{says.pk}", f"line-{got.pk}"]
        if number == 2:
            call(turn, 3)
            order.append("call-3")
        drawn += read_order("".join(page.draw_changes(Dirty())))
    assert drawn == order
    text = admin.get(f"/turns/{turn.pk}/").content.decode()
    assert read_order(text) == order
    # A browser that comes back has the first of them already.
    newest = ModelCall.objects.get(number=1).pk
    after = order[3].removeprefix("line-")
    back = make_page(f"page=turn&turn={turn.pk}&after={after}&call={newest}".encode())
    assert isinstance(back, TurnPage)
    again = [
        one for one in read_order("".join(back.draw_all(START))) if one != "call-1"
    ]
    assert again == order[4:]
    # Only what was written by the calls of a page stands on it.
    second = ModelCall.objects.get(number=2).pk
    text = admin.get(f"/turns/{turn.pk}/?before={second}").content.decode()
    assert read_order(text) == order[:4]


def test_a_page_of_calls_has_what_they_wrote_and_nothing_earlier(
    admin: Client, turn: Turn, monkeypatch: pytest.MonkeyPatch
):
    said = []
    for number in range(1, 7):
        call(turn, number, finish_reason="tool_calls")
        said.append(make_memory(turn.mysis, role="assistant", turn=turn, content="x"))
    address = f"/turns/{turn.pk}/"
    monkeypatch.setattr(turn_page, "LISTED", 3)
    text = admin.get(address).content.decode()
    assert read_order(text)[:2] == ["call-4", f"line-{said[3].pk}"]
    # With fewer lines than that the calls go that wrote none of them.
    monkeypatch.setattr(turn_page, "LINES", 2)
    text = admin.get(address).content.decode()
    fifth = ModelCall.objects.get(number=5).pk
    assert read_order(text)[0] == "call-5"
    assert f'href="?before={fifth}"' in text
    text = admin.get(f"{address}?before={fifth}").content.decode()
    assert read_order(text)[0] == "call-3"
    assert read_order(text)[-1] == f"line-{said[3].pk}"


def test_a_message_leads_to_the_call_that_wrote_it(admin: Client, turn: Turn):
    told = make_memory(turn.mysis, turn=turn, content="Mine.")
    for number in (1, 2):
        written = call(turn, number, finish_reason="stop")
        make_memory(turn.mysis, role="assistant", turn=turn, content="I mine.")
    ModelCall.objects.create(turn=turn, number=3, kind="summary", model="pilot")
    last = make_memory(turn.mysis, role="assistant", turn=turn, content="The end.")
    by_hand = make_memory(turn.mysis, role="assistant", content="By hand.")
    address = f"/turns/{turn.pk}/calls/2/context/"
    text = admin.get("/myses/Ada/").content.decode()
    assert re.findall(r"/calls/(\d)/context/", text) == ["1", "2", "2"]
    inspected = f"/myses/Ada/messages/{last.pk}/inspect/"
    assert address in admin.get(inspected).content.decode()
    for row in (told, by_hand):
        inspected = f"/myses/Ada/messages/{row.pk}/inspect/"
        assert "/calls/" not in admin.get(inspected).content.decode()
    # A context that is not kept any more leads to the call itself.
    answer = admin.get(address)
    assert answer.status_code == 302
    assert answer["Location"] == f"/turns/{turn.pk}/?before={written.pk + 1}#call-2"
    assert 'id="call-2"' in admin.get(answer["Location"]).content.decode()
    assert admin.get(f"/turns/{turn.pk}/calls/9/context/").status_code == 404
