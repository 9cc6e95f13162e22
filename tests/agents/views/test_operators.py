"""What operators do on the pages: several at once, first steps, and what is told."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from agents.actions import messages
from agents.models import Mysis, Provider
from memory.models import Memory
from tests.factories import make_memory, make_mysis, make_turn

HTMX = {"HX-Request": "true"}


# -- several at once ---------------------------------------------------------------


def test_several_are_stopped_and_the_rest_is_told(admin: Client):
    ada, brahe = make_mysis(name="Ada", state="running"), make_mysis(name="Brahe")
    chosen = {"act": "start", "mysis": [ada.pk, brahe.pk]}
    answer = admin.post("/bulk/", chosen, headers=HTMX)
    assert answer.status_code == 200
    text = answer.content.decode()
    assert "Started 1 Mysis. 1 refused: Ada is running" in text
    assert "notice-warning" in text
    assert admin.post("/bulk/", chosen, headers=HTMX).status_code == 409
    chosen["act"] = "stop"
    answer = admin.post("/bulk/", chosen, headers=HTMX)
    assert "Stopped 2 Myses." in answer.content.decode()
    assert set(Mysis.objects.values_list("state", flat=True)) == {"stopped"}


def test_all_that_match_are_more_than_those_ticked(admin: Client):
    for name in ("Ada", "Adams", "Brahe"):
        make_mysis(name=name, state="running")
    admin.post("/bulk/", {"act": "stop", "all": "1", "state": "running", "q": "ada"})
    left = Mysis.objects.filter(state="running")
    assert list(left.values_list("name", flat=True)) == ["Brahe"]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"act": "stop"}, "Nobody is selected"),
        ({"act": "stop", "mysis": ["x", str(10**12)]}, "Nobody is selected"),
        ({"act": "explode"}, "Choose start or stop"),
    ],
)
def test_a_choice_of_nobody_is_refused(admin: Client, values: Any, words: str):
    make_mysis(name="Ada", state="running")
    answer = admin.post("/bulk/", values, headers=HTMX)
    assert answer.status_code == 422
    assert words in answer.content.decode()


def test_a_message_to_those_selected(admin: Client):
    myses = [make_mysis(name=name) for name in ("Ada", "Brahe", "Cassini")]
    values = {"to": "selected", "mysis": [m.pk for m in myses[:2]], "text": "two"}
    answer = admin.post("/send/", values, headers=HTMX)
    assert "Sent to 2 Myses." in answer.content.decode()
    told = Memory.objects.order_by("mysis").values_list("mysis", "origin")
    assert list(told) == [(m.pk, "human") for m in myses[:2]]
    answer = admin.post("/send/", {"to": "selected", "text": "x"}, headers=HTMX)
    assert "Nobody is selected" in answer.content.decode()


def test_what_reached_some_is_not_asked_for_again(admin: Client):
    ada, brahe = make_mysis(name="Ada"), make_mysis(name="Brahe", state="stopped")
    values = {"to": "selected", "mysis": [ada.pk, brahe.pk], "text": "home"}
    answer = admin.post("/send/", values, headers=HTMX)
    # The form is cleared by any answer below 400: sent again, Ada would hear it twice.
    assert answer.status_code == 200
    assert "Sent to 1 Mysis. 1 refused: Brahe" in answer.content.decode()
    values["mysis"] = [brahe.pk]
    assert admin.post("/send/", values, headers=HTMX).status_code == 409


def test_a_message_to_all_that_match(admin: Client):
    for name in ("Ada", "Adams", "Brahe"):
        make_mysis(name=name)
    values = {"to": "selected", "all": "1", "q": "ada", "text": "home"}
    answer = admin.post("/send/", values, headers=HTMX)
    assert "Sent to 2 Myses." in answer.content.decode()
    told = Memory.objects.values_list("mysis__name", flat=True)
    assert set(told) == {"Ada", "Adams"}


def test_the_first_rows_are_shown_and_the_rest_on_demand(admin: Client):
    for number in range(63):
        make_mysis(name=f"M{number:03}")
    text = admin.get("/").content.decode()
    assert text.count('<li class="row ') == 60
    assert "3 of 63 are not shown" in text
    text = admin.get("/?show=120").content.decode()
    assert text.count('<li class="row ') == 63
    assert "are not shown" not in text


# -- the first three steps ---------------------------------------------------------


def test_an_empty_database_is_three_forms_away_from_a_fleet(admin: Client):
    text = admin.get("/").content.decode()
    assert "/welcome/provider/" in text
    assert "Step 1: A provider" in admin.get("/welcome/").content.decode()
    values = {"name": "mine", "kind": "openai", "key": "sk-1", "default_model": "m"}
    values |= {"base_url": "http://127.0.0.1:1/v1", "insist": "yes"}
    answer = admin.post("/welcome/provider/", values)
    assert answer["Location"] == "/welcome/prompt/"
    assert Provider.objects.get().api_key == "sk-1"
    answer = admin.post("/welcome/prompt/", {"text": "You are {{ name }}.\r\n"})
    assert answer["Location"] == "/welcome/mysis/?model=mine"
    form = admin.get(answer["Location"]).content.decode()
    assert 'value="mine"' in form
    assert "sk-1" not in form
    values = {"name": "Ada", "model": "pilot", "start": "on"}
    assert admin.post("/welcome/mysis/", values)["Location"] == "/myses/Ada/"
    ada = Mysis.objects.get()
    assert ada.state == "running"
    assert ada.prompt is not None
    assert ada.prompt.current is not None
    assert ada.prompt.current.text == "You are {{ name }}.\n"


def test_an_error_links_to_its_fix(admin: Client):
    keyless = make_mysis(
        name="Ada",
        state="errored",
        last_error="There is no API key.",
        last_error_code="key",
    )
    lost = make_mysis(name="Brahe", state="errored", last_error="Unknown model gpt-9.")
    make_mysis(name="Cassini", state="running", hold="The budget is spent.")
    make_mysis(name="Draper", state="running", stuck="mine brought the same 5 times.")
    text = admin.get("/").content.decode()
    for link in ("agents/provider/", f"agents/mysis/{lost.pk}/", "agents/budget/"):
        assert f'href="/admin/{link}' in text
    assert "mine brought the same 5 times." in text
    assert (
        "/admin/agents/provider/"
        in admin.get(f"/myses/{keyless.name}/").content.decode()
    )


def test_a_message_tells_how_far_it_has_come(admin: Client):
    mysis = make_mysis(name="Ada", state="running")
    told = make_memory(mysis, content="Sell it.", sender="operator:ann")
    assert "queued" in admin.get("/myses/Ada/").content.decode()
    turn = make_turn(mysis)
    messages.record_shown(
        mysis, [told.pk], [told.pk], turn=(turn.pk, turn.number), call=1
    )
    assert "call 1 of turn 1" in admin.get("/myses/Ada/").content.decode()
    messages.finish_shown([told.pk])
    assert "answered in" in admin.get("/myses/Ada/").content.decode()


@pytest.mark.parametrize(
    ("step", "values", "words"),
    [
        ("provider", {"name": "", "kind": "openai"}, "This field is required."),
        ("prompt", {"text": "  "}, "is empty: write something."),
        ("prompt", {"text": ""}, "or keep what is there."),
        ("mysis", {"name": "x/y", "model": "pilot"}, "field-bad"),
        ("mysis", {"name": "x", "model": "nobody:m"}, "field-bad"),
    ],
)
def test_a_step_that_cannot_be_says_why(
    admin: Client, step: str, values: Any, words: str
):
    answer = admin.post(f"/welcome/{step}/", values)
    assert answer.status_code == 422
    assert words in answer.content.decode()
    assert not Mysis.objects.exists()


def test_matches_are_counted_by_mysis(admin: Client):
    for name, count in (("Ada", 3), ("Brahe", 1)):
        mysis = make_mysis(name=name)
        for number in range(count):
            make_memory(mysis, content=f"ore {number}")
    text = admin.get("/search/?q=ore").content.decode()
    assert "4 matches" in text
    assert re.search(r'<bdi>Ada</bdi> <span class="num">3</span>', text)
