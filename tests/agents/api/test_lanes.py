"""/lanes and /compare: the figures of the pages, with one clear error for what is odd."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from agents import actions
from agents.dashboard import lane_seconds, lanes
from agents.dashboard.shared_results import RECHECK_SHARED
from agents.dashboard.time_axis import TimeSpan
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


def test_what_is_to_come_is_cut_off(viewer: Client, pair: list[Mysis]) -> None:
    now = timezone.now()
    since, until = now - timedelta(hours=2), now + timedelta(hours=11)
    asked = {"since": since.isoformat(), "until": until.isoformat()}
    compared = get(viewer, "compare", a="Ada", b="Brahe", **asked)
    for axis in (get(viewer, "lanes", **asked)["axis"], compared["axis"]):
        begin = datetime.fromisoformat(axis["since"])
        step = timedelta(seconds=axis["step"] + RECHECK_SHARED)
        assert since - step <= begin <= since
    # As of any other span that goes on there are rates.
    assert compared["sides"][0]["yields"]
    page = viewer.get("/lanes/", asked)
    assert page.context["axis"].since <= since
    assert page.context["axis"].seconds < 8000


def test_the_same_question_is_answered_once(viewer: Client, pair: list[Mysis]) -> None:
    now = timezone.now()
    for hours in (2, 20):
        begin = now - timedelta(hours=hours)
        spans = {
            TimeSpan.parse(begin.isoformat(), None, moment)
            for moment in (now + timedelta(microseconds=n) for n in range(5))
        }
        # Two, where a bucket of time ended between them.
        assert len(spans) <= 2
        [*_, span] = spans
        assert span
        assert timedelta(0) < span.length - (now - begin) <= timedelta(minutes=1)
        assert span.make_axis(now, 100).since <= begin


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


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("lanes?since=1y", 422, "since: give minutes or hours"),
        ("lanes?since=7d", 422, "since: give minutes or hours"),
        ("lanes?until=soon", 422, "until: give a moment"),
        ("lanes?since=2026-01-02&until=2026-01-01", 422, "since: give"),
        ("lanes?state=flying", 422, "state: "),
        ("lanes?limit=51", 422, "limit: "),
        ("compare?a=Ada", 422, "b: "),
        ("compare?a=Ada&b=Ada", 422, "b: is the same Mysis"),
        ("compare?a=Ada&b=Nobody", 404, "There is no Mysis 'Nobody'"),
    ],
)
def test_what_cannot_be_asked_is_told(
    viewer: Client, pair: list[Mysis], path: str, status: int, said: str
) -> None:
    answer = viewer.get(f"/api/v1/{path}")
    assert answer.status_code == status
    assert said in answer.json()["detail"]
    assert Client().get(f"/api/v1/{path}").status_code == 401


def test_what_takes_too_long_asks_for_less(
    viewer: Client, pair: list[Mysis], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "SECONDS", 0.05)
    monkeypatch.setattr(lane_seconds, "_STEPS", "SELECT pg_sleep(20)")
    for path in ("lanes", "compare?a=Ada&b=Brahe"):
        answer = viewer.get(f"/api/v1/{path}")
        assert (answer.status_code, answer.json()["code"]) == (422, "too_slow")
