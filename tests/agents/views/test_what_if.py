"""What-if: a moved slider draws what it changes alone, and the last hour comes in parts."""

from __future__ import annotations

import json
import re

import pytest
from django.test import Client

from agents import context_inputs
from agents.models import ModelCall, Mysis
from agents.views import last_hour
from memory.assembly import prepare
from memory.models import ContextPolicy, SentContext
from tests.agents.views.test_downloads import read
from tests.browser import scenes
from tests.factories import make_mysis, make_turn

CONTEXT = "/myses/Ada/context/"
MOVED = {"HX-Request": "true", "HX-Target": "tried"}


@pytest.fixture
def mysis(db: None) -> Mysis:
    made = make_mysis(name="Ada")
    made.policy = ContextPolicy.objects.create(
        name="own", strategy="tiered", options={"hi": 0.6, "lo": 0.3}
    )
    made.save()
    scenes.add_conversation(made, exchanges=8)
    return made


def make_call(mysis: Mysis) -> SentContext:
    """A model call of now, with what it was sent."""
    turn = make_turn(mysis, outcome="done")
    made = ModelCall.objects.create(turn=turn, number=1, model=mysis.model)
    view = context_inputs.preview_context(mysis)
    return prepare.record_call(call_id=made.pk, prepared=view)


def read_attributes(text: str, name: str) -> dict[str, str]:
    """Those of the field of that name."""
    found = re.search(rf'<(?:input|select)[^>]*name="{name}"[^>]*>', text)
    assert found is not None
    return dict(re.findall(r'([\w-]+)="([^"]*)"', found[0]))


def test_a_slider_knows_what_each_number_is_by_itself(admin: Client, mysis: Mysis):
    text = admin.get(CONTEXT).content.decode()
    own = {
        name: json.loads(read_attributes(text, name)["data-own"].replace("&quot;", '"'))
        for name in ("window", "lo", "hi", "budget")
    }
    assert read_attributes(text, "strategy")["data-own"] == "tiered"
    # Those of its policy, and the defaults of what it could have instead.
    assert (own["lo"], own["hi"]) == ({"tiered": 0.3}, {"tiered": 0.6})
    assert own["window"]["window"] == 20
    assert "full" not in own["window"]
    assert set(own["budget"].values()) == {128_000}
    assert read_attributes(text, "hi")["placeholder"] == "0.6"


@pytest.mark.parametrize("past", [False, True])
def test_a_moved_slider_draws_what_it_changes_alone(
    admin: Client, mysis: Mysis, past: bool
):
    address = CONTEXT
    if past:
        address = f"/turns/{make_call(mysis).call.turn_id}/calls/1/context/"
    query = {"strategy": "window", "window": "4"}
    whole = admin.get(address, query).content.decode()
    part = admin.get(address, query, headers=MOVED).content.decode()
    assert "<html" in whole
    for absent in ("<html", "context-ends", "<form"):
        assert absent not in part, absent
    for name in ("tried-tag", "tried-back", "said-window"):
        found = re.search(rf'id="{name}"[^>]*>', part)
        assert found is not None
        assert 'hx-swap-oob="true"' in found[0]
    assert "what if, not" in part
    assert "out of window" in part
    assert ('id="tried-verb"' in part) is past


def test_a_mark_that_cannot_be_is_told_at_its_field(admin: Client, mysis: Mysis):
    answer = admin.get(CONTEXT, {"lo": "0.7"}, headers=MOVED)
    assert answer.status_code == 422
    said = answer.content.decode().partition('id="said-lo"')[2].partition("</div>")[0]
    assert "must not be above options.hi" in said
    answer = admin.get(CONTEXT, {"lo": "0"}, headers=MOVED)
    assert answer.context["tried"].what_if.subject.options == {"hi": 0.6, "lo": 0.0}


@pytest.mark.django_db(transaction=True)
def test_the_last_hour_comes_line_by_line_and_adds_up(
    admin: Client, mysis: Mysis, monkeypatch: pytest.MonkeyPatch
):
    # So little time that each line has one call.
    monkeypatch.setattr(last_hour, "AT_ONCE", 0)
    rows = [make_call(mysis) for _ in range(3)]
    make_call(make_mysis())
    SentContext.objects.filter(pk=rows[0].pk).update(created_at="2020-01-01T00:00Z")
    query = {"strategy": "window", "window": "2", "format": "lines"}
    pieces, _ = read(admin.get(f"{CONTEXT}hour/", query))
    lines = [json.loads(piece) for piece in pieces]
    assert [line["rows"].count("<tr") for line in lines] == [1, 1, 0]
    own, tried = (
        sum(row.stats["tokens_by_category"].values())
        for row in (
            rows[0],
            context_inputs.preview_context(
                mysis, strategy="window", options={"window": 2}
            ).assembly,
        )
    )
    assert tried < own
    assert "2 so far" in lines[1]["sums"]
    assert "so far" not in lines[2]["sums"]
    for count in (2 * own, 2 * tried):
        assert f"{count:,}" in lines[2]["sums"]


def test_the_last_hour_is_a_page_without_a_script(
    admin: Client, mysis: Mysis, monkeypatch: pytest.MonkeyPatch
):
    address = f"{CONTEXT}hour/"
    assert "made no call" in admin.get(address, {"lo": "0.1"}).content.decode()
    make_call(mysis)
    text = admin.get(address, {"strategy": "window", "window": "2"}).content.decode()
    assert "view=compare" in text
    assert "<html" in text
    # Nobody waits long for it, and nobody reads the answer to HEAD.
    make_call(mysis)
    with monkeypatch.context() as patch:
        patch.setattr(last_hour, "LONGEST", 0)
        text = admin.get(address, {"strategy": "full"}).content.decode()
        assert "the first 1 of 2 calls" in text
        assert text.count("view=compare") == 1
    answer = admin.head(address, {"strategy": "full"})
    assert (answer.status_code, answer.context["calls"]) == (200, [])
    text = admin.get(address, {"budget": "300"}).content.decode()
    assert "Not valid or over the budget" in text
    for query, words in (
        ({}, "No setting is changed"),
        ({"lo": "9"}, "less than or equal to 1"),
        ({"strategy": "full", "window": "2"}, "options.window: unknown for strategy"),
    ):
        answer = admin.get(address, {**query, "format": "lines"})
        assert answer.status_code == 422
        assert words in answer.content.decode()
