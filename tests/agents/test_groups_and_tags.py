"""Groups and tags of Myses: they filter, select and address; who finds what was sent."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from agents import actions
from agents.actions import ActionError
from agents.broadcast_search import read_broadcast, search_broadcasts, select_readable
from agents.context_inputs import preview_context, read_inputs
from agents.dashboard.fleet import FleetView, find_matching_ids
from agents.models import Broadcast, Mysis, Prompt, PromptVersion
from agents.tools.fleet_answers import answer_list_myses
from agents.tools.message_answers import answer_broadcast
from agents.tools.own_tool_answers import (
    LocalRefusedError,
    Scope,
    answer_recall,
)
from agents.tools.own_tool_answers import answer_search_broadcasts as search
from memory.handles import RecallError
from memory.models import Memory
from tests.factories import make_mysis
from tests.programs import Program

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def fleet() -> list[Mysis]:
    """Ada and Bob mine, Bob and Cyd scout, Dot does neither and is stopped."""
    return [
        make_mysis(name="Ada", group="miners"),
        make_mysis(name="Bob", group="miners", tags=["scout", "fast"]),
        make_mysis(name="Cyd", tags=["scout"]),
        make_mysis(name="Dot", state="stopped"),
    ]


def found(reader: Mysis) -> list[str]:
    matches = search({"query": "go"}, Scope("x", reader.pk)).value["matches"]
    return [each["content"] for each in matches]


def test_who_is_made_later_finds_what_was_said_to_the_whole_fleet(
    fleet: list[Mysis],
) -> None:
    """W11: also by the newest word of the commander in its prompt."""
    actions.send_broadcast(text="All go to Sol.", by="operator:ann")
    actions.send_broadcast(text="Bob says go.", by="mysis:Bob", sender=fleet[1])
    late, of_group = make_mysis(name="Eve"), make_mysis(name="Fay", group="late")
    for each in (late, of_group):
        assert found(each) == ["All go to Sol.", "Bob says go."]
    assert not Memory.objects.filter(mysis=late).exists()
    assert "All go to Sol." in (preview_context(late).assembly.messages[0]["content"])
    # The search of programs for one Mysis still means what it received or sent.
    assert search_broadcasts(query="go", mysis_id=late.pk) == []


def test_what_was_said_to_some_is_found_by_these_and_shown_to_these(
    fleet: list[Mysis],
) -> None:
    ada = fleet[0]
    actions.send_broadcast(text="Miners go.", by="operator:ann", group="miners")
    actions.send_broadcast(text="Scouts go.", by="operator:ann", tag="scout")
    assert [found(one) for one in fleet] == [
        ["Miners go."],
        ["Miners go.", "Scouts go."],
        ["Scouts go."],
        [],
    ]
    told = {one.name: read_inputs(one).broadcast for one in fleet}
    assert told == {
        "Ada": "Miners go.",
        "Bob": "Scouts go.",
        "Cyd": "Scouts go.",
        "Dot": None,
    }
    assert [one.memories.count() for one in fleet] == [1, 2, 1, 0]
    late = make_mysis(name="Eve", group="miners")
    assert found(late) == ["Miners go."]
    # Who leaves the group keeps what it was told.
    actions.update_mysis(mysis=ada, by="x", group="")
    assert found(Mysis.objects.get(pk=ada.pk)) == ["Miners go."]


def test_a_long_broadcast_is_recalled_in_full(fleet: list[Mysis]) -> None:
    text = "go " * 3_000
    sent = actions.send_broadcast(text=text, by="operator:ann", group="miners")
    (match,) = search({"query": "go"}, Scope("x", fleet[0].pk)).value["matches"]
    handle = f"broadcast://{sent.pk}"
    assert handle in match["content"]
    answer = answer_recall({"handle": handle}, Scope("x", fleet[0].pk))
    assert answer.value["content"] == text
    with pytest.raises(RecallError, match="zoea_search_broadcasts"):
        answer_recall({"handle": handle}, Scope("x", fleet[2].pk))
    assert read_broadcast(handle, None) == text


@given(handle=st.text(max_size=30))
def test_a_handle_that_stands_for_nothing_is_refused(handle: str) -> None:
    with pytest.raises(RecallError):
        read_broadcast(f"broadcast://{handle}x", None)


def test_an_unknown_group_is_refused_by_its_name(fleet: list[Mysis]) -> None:
    with pytest.raises(ActionError, match="to: no Mysis has the group 'traders'"):
        actions.send_broadcast(text="x", by="y", group="traders")
    assert not Broadcast.objects.exists()


def test_rest_filters_and_addresses(fleet: list[Mysis], admin_program: Program) -> None:
    def names(query: str) -> list[str]:
        items = admin_program.get(f"/myses{query}").json()["items"]
        return [item["name"] for item in items]

    assert names("?group=miners") == ["Ada", "Bob"]
    assert names("?tag=scout") == ["Bob", "Cyd"]
    assert names("?group=miners&tag=scout") == ["Bob"]
    assert names("?group=nobody") == names("?tag=%00") == []
    assert len(names("")) == 4
    for to, count in (
        ({"group": "miners"}, 2),
        ({"tag": "scout"}, 2),
        ({"fleet": True}, 3),
        (None, 3),
    ):
        body = {"text": "go"} | ({} if to is None else {"to": to})
        item = admin_program.post("/broadcasts", body).json()
        assert (item["recipients"], item["to"]) == (count, to or {"fleet": True})
    for to in ({}, {"group": "a", "tag": "b"}, {"fleet": False}, {"group": "no"}):
        answer = admin_program.post("/broadcasts", {"text": "go", "to": to})
        assert answer.status_code == 422, to
        assert "to" in answer.json()["detail"]
    assert Broadcast.objects.count() == 4


def test_tags_are_set_and_checked_over_rest(admin_program: Program) -> None:
    body = {"name": "Ada", "model": "pilot", "tags": ["scout", "fast", "scout"]}
    assert admin_program.post("/myses", body).status_code == 201
    assert admin_program.get("/myses/Ada").json()["tags"] == ["scout", "fast"]
    for tags in (["a,b"], [" a"], [""], ["x" * 51], ["a\nb"], ["x"] * 21, ["\u200b"]):
        answer = admin_program.patch("/myses/Ada", {"tags": tags})
        assert answer.status_code == 422, tags
        assert "tags" in answer.json()["detail"]
    assert admin_program.patch("/myses/Ada", {"tags": []}).status_code == 200
    assert Mysis.objects.get().tags == []


def test_the_fleet_page_filters_selects_and_addresses(
    fleet: list[Mysis], client: Client
) -> None:
    client.force_login(User.objects.create_superuser("root"))
    view = FleetView.read({"group": "miners", "tag": "scout"})
    assert find_matching_ids(view) == [fleet[1].pk]
    assert "group=miners&tag=scout" in view.write_query()
    shown = client.get("/?tag=scout").content.decode()
    for part in ('<option value="scout" selected>', "Bob", "Cyd", "group:miners"):
        assert part in shown
    assert f'id="m{fleet[0].pk}-name"' not in shown
    done = client.post(
        reverse("bulk"), {"act": "stop", "all": "1", "state": "", "group": "miners"}
    )
    assert done.status_code < 400
    states = dict(Mysis.objects.values_list("name", "state"))
    assert [states[name] for name in ("Ada", "Bob", "Cyd")] == [
        *("stopped", "stopped"),
        "idle",
    ]
    client.post(reverse("send"), {"to": "tag:scout", "text": "go"})
    (sent,) = Broadcast.objects.all()
    assert (sent.tag, sent.to) == ("scout", {"tag": "scout"})
    assert [row.mysis_id for row in Memory.objects.all()] == [fleet[2].pk]
    for to in ("group:miners", "group:none"):
        client.post(reverse("send"), {"to": to, "text": "go"})
    assert Broadcast.objects.count() == 1


def test_the_admin_edits_and_filters_tags(fleet: list[Mysis], client: Client) -> None:
    client.force_login(User.objects.create_superuser("root"))
    url = reverse("admin:agents_mysis_changelist")
    rows = client.get(url, {"tag": "scout"}).context["cl"].result_list
    assert {row.name for row in rows} == {"Bob", "Cyd"}
    change = reverse("admin:agents_mysis_change", args=[fleet[0].pk])
    form = client.get(change).context["adminform"].form
    given = {
        name: value
        for name in form.fields
        if (value := form[name].value()) not in (None, False)
    }
    given |= {"model_settings": "{}", "tags": "slow,fast", "prompt": _prompt().pk}
    given |= {f"pins-{what}": 0 for what in ("TOTAL_FORMS", "INITIAL_FORMS")}
    answer = client.post(change, given)
    assert answer.status_code == 302, answer.content.decode()
    assert Mysis.objects.get(name="Ada").tags == ["slow", "fast"]


def _prompt() -> Prompt:
    prompt = Prompt.objects.create(name="p")
    PromptVersion.objects.create(prompt=prompt, number=1, text="x", author="y")
    return prompt


def test_programs_list_and_address_members_over_mcp(fleet: list[Mysis]) -> None:
    everybody = Scope("token:x")
    listed = answer_list_myses({"group": "miners"}, everybody).value
    assert [one["name"] for one in listed["myses"]] == ["Ada", "Bob"]
    assert (listed["myses"][1]["tags"], listed["total"]) == (["scout", "fast"], 2)
    sent = answer_broadcast({"message": "go", "tag": "scout"}, everybody).value
    assert sent["recipients"] == 2
    both: dict[str, Any] = {"message": "go", "tag": "scout", "group": "miners"}
    with pytest.raises(LocalRefusedError, match="one of them"):
        answer_broadcast(both, everybody)
    with pytest.raises(ActionError, match="no Mysis has the group"):
        answer_broadcast({"message": "go", "group": "\x00"}, everybody)
    assert json.dumps(listed)
    assert select_readable(fleet[3]).count() == 0
