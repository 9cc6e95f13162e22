"""What a tool counts as can be set by hand for the whole fleet (A1)."""

from __future__ import annotations

import json

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from agents import actions
from agents.actions import ActionError
from agents.context_inputs import preview_context
from agents.db import run_in_db
from agents.models import Event, Mysis, ToolPolicy
from agents.tools.chain import open_toolbox
from memory.context.types import POLICIES
from memory.redaction import HIDDEN
from tests.agents.game.faulty import FaultyServer
from tests.factories import make_memory
from tests.programs import Program

SAID = "the vault opens at noon"


def remember_call(mysis: Mysis, tool: str) -> int:
    """A call of a tool with its result, in the log; the id of the result."""
    function = {"name": tool, "arguments": json.dumps({"where": SAID})}
    call = {"id": "c", "type": "function", "function": function}
    make_memory(mysis, content="Go.")
    make_memory(mysis, role="assistant", content="", tool_calls=[call])
    row = make_memory(
        mysis, role="tool", tool_call_id="c", tool_name=tool, content=SAID
    )
    return int(row.pk)


def sent(mysis: Mysis, strategy: str = "window") -> str:
    return json.dumps(preview_context(mysis, strategy=strategy).assembly.messages)


async def test_a_secret_tool_is_hidden_in_views_events_and_recall(
    mysis: Mysis, faulty: FaultyServer
) -> None:
    number = await run_in_db(remember_call, mysis, "get_status")
    assert SAID in await run_in_db(sent, mysis)
    await run_in_db(actions.save_tool_policy, tool="get_status", policy="secret")
    assert SAID not in await run_in_db(sent, mysis)
    box = await open_toolbox(mysis.pk)
    told = await box.call("zoea_recall", json.dumps({"handle": f"ctx://self/{number}"}))
    assert told.text == HIDDEN
    await box.call("get_status", json.dumps({"where": SAID}))
    told_of = Event.objects.filter(kind="tool.called").order_by("pk")
    data = [row.data async for row in told_of]
    assert data[-1]["arguments"] == HIDDEN
    await ToolPolicy.objects.all().adelete()
    assert SAID in await run_in_db(sent, mysis)


async def test_a_tool_that_changes_something_is_no_read_though_it_is_named_so(
    mysis: Mysis, faulty: FaultyServer
) -> None:
    box = await open_toolbox(mysis.pk)
    assert (box.find_policy("get_status"), box.reads_only("get_status")) == (
        *("snapshot", True),
    )
    await run_in_db(actions.save_tool_policy, tool="get_status", policy="mutation")
    box = await open_toolbox(mysis.pk)
    assert (box.find_policy("get_status"), box.reads_only("get_status")) == (
        *("mutation", False),
    )


def test_a_print_tool_is_output_in_a_coalesced_context(mysis: Mysis) -> None:
    remember_call(mysis, "captains_log_add")
    assert SAID not in sent(mysis, "coalesced").partition("Output:")[2]
    actions.save_tool_policy(tool="captains_log_add", policy="print")
    assert SAID in sent(mysis, "coalesced").partition("Output:")[2]


@pytest.mark.parametrize(
    "tool", ["", "a b", "x" * 101, "a/", "/b", "a/b/c", "a\n", "\x00"]
)
def test_what_is_no_name_is_refused(db: None, tool: str) -> None:
    with pytest.raises(ActionError, match="tool: "):
        actions.save_tool_policy(tool=tool.replace("\x00", " "), policy="secret")


def test_rest_sets_lists_and_takes_back(db: None, admin_program: Program) -> None:
    for policy in POLICIES:
        body = {"policy": policy}
        item = admin_program.call("PUT", "/tool-policies/trade_credits", body).json()
        assert (item["tool"], item["policy"]) == ("trade_credits", policy)
    action = "/tool-policies/spacemolt_social/wave"
    assert admin_program.call("PUT", action, {"policy": "query"}).status_code == 200
    assert admin_program.delete(action).status_code == 204
    (listed,) = admin_program.get("/tool-policies").json()["items"]
    assert listed == item
    wrong = admin_program.call("PUT", "/tool-policies/mine", {"policy": "hidden"})
    assert wrong.status_code == 422
    assert "policy" in wrong.json()["detail"]
    for status in (204, 404):
        gone = admin_program.delete("/tool-policies/trade_credits")
        assert gone.status_code == status


def test_the_admin_offers_the_closed_set(db: None, client: Client) -> None:
    client.force_login(User.objects.create_superuser("root"))
    url = reverse("admin:agents_toolpolicy_add")
    assert client.post(url, {"tool": "mine", "policy": "query"}).status_code == 302
    refused = client.post(url, {"tool": "dock", "policy": "odd"})
    assert "odd is not one of the available choices" in refused.content.decode()
    assert ToolPolicy.objects.get().tool == "mine"
