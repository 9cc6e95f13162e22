"""/lanes and /compare: the figures of the pages, with one clear error for what is odd."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from agents import actions
from agents.models import Mysis, Turn
from memory.models.contexts import BUILT_IN
from memory.redaction import HIDDEN
from tests.factories import bring_in, make_memory, make_mysis, make_turn

pytestmark = pytest.mark.django_db


@pytest.fixture
def viewer(client: Client) -> Client:
    """Signed in with the least role."""
    client.force_login(User.objects.create_user("eve"))
    return client


@pytest.fixture
def pair() -> list[Mysis]:
    """Two that flew an hour ago; Ada earned, thought, and was given an order."""
    now = timezone.now()
    pair = [make_mysis(name=name, group="miners") for name in ("Ada", "Brahe")]
    for number, mysis in enumerate(pair, 1):
        turn = make_turn(mysis)
        Turn.objects.filter(pk=turn.pk).update(
            started_at=now - timedelta(minutes=60),
            finished_at=now - timedelta(minutes=50),
            model="pilot",
            actions=number,
            failed_actions=number - 1,
            credits_before=1000,
            credits_after=1000 + 100 * number,
        )
        bring_in(Turn.objects.get(pk=turn.pk))
    said, thought = "password: s3cret-s3cret-s3cret", "The belt is near."
    make_memory(pair[0], role="assistant", content=said, reasoning=thought)
    actions.send_order(myses=pair[:1], text="Sell the iron.", by="operator:ann")
    return pair


def get(viewer: Client, path: str, **asked: Any) -> Any:
    answer = viewer.get(f"/api/v1/{path}", asked)
    assert answer.status_code == 200, answer.content
    return answer.json()


def test_lanes_are_those_of_the_page(viewer: Client, pair: list[Mysis]) -> None:
    found = get(viewer, "lanes", since="2h")
    assert [lane["name"] for lane in found["items"]] == ["Ada", "Brahe"]
    assert (found["matching"], found["next"], found["cut"]) == (2, None, False)
    ada = found["items"][0]
    assert ada["seconds"]["thinking"] == pytest.approx(600, abs=1)
    assert sum(ada["seconds"].values()) == pytest.approx(
        7200, abs=found["axis"]["step"]
    )
    assert sum(step["length"] for step in ada["steps"]) == found["axis"]["count"]
    [mark] = ada["marks"]
    assert (mark["kind"], mark["text"]) == ("order", "Sell the iron.")
    assert mark["memory"]
    page = viewer.get("/lanes/?since=2h&view=table").content.decode()
    assert "Sell the iron." in page
    assert [one["name"] for one in get(viewer, "lanes", q="bra")["items"]] == ["Brahe"]
    assert get(viewer, "lanes", group="traders")["matching"] == 0
    running = get(viewer, "lanes", state="running")["items"]
    assert [one["name"] for one in running] == ["Ada"]


def test_lanes_come_in_pages(viewer: Client, pair: list[Mysis]) -> None:
    found = get(viewer, "lanes", limit=1)
    assert ([one["name"] for one in found["items"]], found["matching"]) == (["Ada"], 2)
    # Who comes before the place that was reached shifts nobody.
    make_mysis(name="Abel")
    found = get(viewer, "lanes", limit=1, cursor=found["next"])
    assert ([one["name"] for one in found["items"]], found["next"]) == (["Brahe"], None)
    found = get(viewer, "lanes", cursor="Brahe")
    assert (found["items"], found["matching"]) == ([], 3)


def test_two_are_compared_as_on_the_page(viewer: Client, pair: list[Mysis]) -> None:
    found = get(viewer, "compare", a="Ada", b=pair[1].pk, since="2h")
    ada, brahe = found["sides"]
    page = viewer.get("/compare/?a=Ada&b=Brahe&since=2h").content.decode()
    assert (ada["credits_gained"], brahe["credits_gained"]) == (100, 200)
    assert (ada["credits"], brahe["credits"]) == (1100, 1200)
    assert (brahe["actions"], brahe["failed_actions"]) == (2, 1)
    assert (ada["turns"], ada["model"], ada["policy"]) == (1, "pilot", BUILT_IN)
    assert [one["gained"] for one in ada["sums"]] == [100]
    assert ada["yields"]["credits"] == 100
    assert ada["thought"]["reasoning"] == "The belt is near."
    assert HIDDEN in ada["thought"]["content"]
    assert "s3cret" not in ada["thought"]["content"]
    assert brahe["thought"] is None
    assert "The belt is near." in page
    assert ada["seconds"]["thinking"] == pytest.approx(600, abs=1)
    # Of a past span there are no rates, and nothing that came after it.
    until = (timezone.now() - timedelta(hours=3)).isoformat()
    past = get(viewer, "compare", a="Ada", b="Brahe", until=until)["sides"][0]
    assert (past["yields"], past["turns"], past["thought"]) == (None, 0, None)
