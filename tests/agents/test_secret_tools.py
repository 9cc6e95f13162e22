"""A tool made secret by hand is hidden at every door, also for what was kept before (A11)."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from agents import actions
from agents.context_inputs import preview_context
from agents.models import Account, Mysis, ToolCatalogue, ToolPolicy
from memory.game_calls import list_secret_names
from memory.models import GameSnapshot
from memory.models.secret_tools import read_secret_tools
from tests.factories import make_memory, make_mysis
from tests.programs import Program

pytestmark = pytest.mark.django_db
SAID = "THEVAULT"


def remember(mysis: Mysis, tool: str, command: str, given: dict[str, str]) -> None:
    function = {"name": tool, "arguments": json.dumps(given)}
    call = {"id": "c", "type": "function", "function": function}
    make_memory(mysis, role="assistant", content="", tool_calls=[call])
    make_memory(
        mysis, role="tool", tool_call_id="c", tool_name=command, content=f"{SAID} 2"
    )


def list_tools(*tools: Mapping[str, object]) -> None:
    ToolCatalogue.objects.create(pk=settings.SPACEMOLT_MCP_URL, tools=list(tools))


SOCIAL = {
    "name": "spacemolt_social",
    "policy": "mutation",
    "parameters": {"properties": {"action": {"enum": ["captains_log_add", "wave"]}}},
}


@pytest.mark.parametrize(
    ("policy_of", "tool", "command", "given"),
    [
        ("trade_credits", "trade_credits", "trade_credits", {"to": SAID}),
        (
            *("spacemolt_social", "spacemolt_social", "captains_log_add"),
            {"action": "captains_log_add", "content": SAID},
        ),
        (
            *("captains_log_add", "spacemolt_social", "captains_log_add"),
            {"action": "captains_log_add", "content": SAID},
        ),
    ],
)
def test_what_was_said_before_is_neither_found_nor_shown(
    admin_program: Program,
    client: Client,
    policy_of: str,
    tool: str,
    command: str,
    given: dict[str, str],
) -> None:
    mysis = make_mysis(name="Ada")
    list_tools(SOCIAL)
    remember(mysis, tool, command, given)
    paths = (
        f"/myses/{mysis.pk}/memories",
        f"/search/messages?q={SAID}&mode=exact",
        f"/search/messages?q={SAID}",
    )
    for path in paths:
        assert SAID.encode() in admin_program.get(path).content
    actions.save_tool_policy(tool=policy_of, policy="secret")
    for path in paths:
        found = admin_program.get(path).json()["items"]
        assert SAID not in json.dumps(found)
    client.force_login(User.objects.create_superuser("root"))
    page = client.get(f"/search/?q={SAID}&mode=exact").content.decode()
    assert f"{SAID} 2" not in page
    listed = client.get(f"/admin/memory/memory/?q={SAID}").content.decode()
    assert f"{SAID} 2" not in listed
    ToolPolicy.objects.all().delete()
    assert SAID.encode() in admin_program.get(paths[0]).content


def test_the_names_follow_the_list_and_what_was_set_by_hand() -> None:
    assert read_secret_tools() == frozenset()
    actions.save_tool_policy(tool="mine", policy="secret")
    assert read_secret_tools() == {"mine", "game"}
    actions.save_tool_policy(tool="mine", policy="query")
    assert read_secret_tools() == frozenset()
    list_tools(SOCIAL)
    actions.save_tool_policy(tool="spacemolt_social", policy="secret")
    assert read_secret_tools() == {
        "game",
        *("spacemolt_social", "captains_log_add", "spacemolt_social/wave"),
    }
    assert "mine" in list_secret_names(frozenset({"spacemolt_social"}))


def test_what_is_known_by_a_tool_that_becomes_secret_is_not_shown(
    admin_program: Program,
) -> None:
    mysis = make_mysis(name="Ada")
    mysis.account = Account.objects.create(username="Ada", assigned_to=mysis)
    mysis.save()
    content = json.dumps({"player": {"username": "Ada", "credits": 98765}})
    GameSnapshot.objects.create(
        username="Ada",
        tool_name="get_status",
        content=content,
        captured_at=timezone.now(),
    )
    assert "98,765" in json.dumps(preview_context(mysis).assembly.messages)
    rows = f"/myses/{mysis.pk}/state"
    assert admin_program.get(rows).json()["items"]
    actions.save_tool_policy(tool="get_status", policy="secret")
    assert "98,765" not in json.dumps(preview_context(mysis).assembly.messages)
    assert admin_program.get(rows).json()["items"] == []
