"""The tools of a call: kept with it, shown on its page, and tried otherwise."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from agents import context_inputs
from agents.models import ModelCall, Mysis, Pin, ToolCatalogue
from agents.views import context as pages
from memory.assembly import prepare, replay
from memory.assembly.sent_view import render_sent
from memory.models import ContextPolicy, ContextText, SentContext
from tests.factories import make_memory, make_mysis, make_turn

LONG = "Dig the resources of this place. " * 20


def store_tools(url: str, *names: str) -> None:
    """What the game offers from now on."""
    properties = {"quantity": {"type": "integer", "description": "The quantity"}}
    tools = [
        {
            "name": name,
            "description": f"{name.title()} it. {LONG}",
            "parameters": {"type": "object", "properties": properties, "required": []},
            "policy": "mutation",
            "read_only": False,
        }
        for name in names
    ]
    ToolCatalogue.objects.update_or_create(url=url, defaults={"tools": tools})


@pytest.fixture
def ada(db: None, settings: Settings) -> Mysis:
    store_tools(settings.SPACEMOLT_MCP_URL, "mine", "sell", "travel")
    options = {"tools": "on_demand", "allow": ["mine", "se*"]}
    policy = ContextPolicy.objects.create(name="diet", options=options)
    made = make_mysis(name="Ada", policy=policy)
    Pin.objects.create(mysis=made, text="Never attack miners.", author="ann")
    calls = [
        {
            "id": "c1",
            "type": "function",
            "function": {"name": "mine", "arguments": '{"quantity":3}'},
            "via": "game",
        }
    ]
    make_memory(made, content="Dig.")
    make_memory(made, role="assistant", origin="agent", content="", tool_calls=calls)
    make_memory(made, role="tool", origin="tool", content="ok", tool_call_id="c1")
    return made


def call(mysis: Mysis) -> SentContext:
    made = ModelCall.objects.create(turn=make_turn(mysis), number=1, model=mysis.model)
    view = context_inputs.preview_context(mysis)
    row = prepare.record_call(call_id=made.pk, prepared=view)
    return SentContext.objects.get(pk=row.pk)


def called_names(messages: list[dict[str, Any]]) -> list[str]:
    made = [one for m in messages for one in m.get("tool_calls") or ()]
    return [one["function"]["name"] for one in made]


def test_a_past_call_shows_its_own_tools(admin: Client, ada: Mysis, settings: Settings):
    sent = call(ada)
    store_tools(settings.SPACEMOLT_MCP_URL, "dock")
    ContextPolicy.objects.update(options={})
    address = f"/turns/{sent.call.turn_id}/calls/1/context/"
    page = admin.get(address, {"view": "tools"})
    tools, text = page.context["tools"], page.content.decode()
    fates = {row.name: row.fate for row in tools.rows}
    assert fates["mine"] == fates["sell"] == "one line"
    assert (fates["travel"], fates["game"]) == ("not offered", "in full")
    assert (tools.mode, tools.allow, tools.cut) == ("on_demand", ("mine", "se*"), 1)
    assert tools.after == sent.stats["tokens_by_category"]["tools"]
    assert 0 < tools.listed < tools.before
    assert tools.saved > 0
    assert "mine([quantity]): Mine it" in text
    assert "1 tool not offered" in " ".join(text.split()).replace(
        "</span>", ""
    ).replace('<span class="num">', "")
    now = admin.get("/myses/Ada/context/?view=tools").context["tools"]
    assert "dock" in {row.name for row in now.rows}
    assert now.mode == "full"


def test_a_compact_call_tells_what_was_cut(admin: Client, ada: Mysis):
    ContextPolicy.objects.update(options={"tools": "compact"})
    page = admin.get("/myses/Ada/context/?view=tools")
    row = next(r for r in page.context["tools"].rows if r.name == "mine")
    assert (row.fate, row.about) == ("shorter", "Mine it.")
    assert row.before > 2 * row.after
    assert "description" not in row.schema


def test_what_is_sent_reads_as_calls_of_game(ada: Mysis):
    sent = call(ada)
    shown = render_sent(sent)
    assert called_names(shown.messages) == ["game"]
    made = shown.messages[2]["tool_calls"][0]
    assert "via" not in made
    assert json.loads(made["function"]["arguments"]) == {
        "command": "mine",
        "arguments": {"quantity": 3},
    }
    # By reference: the view stores no text of the call.
    assert sent.view["messages"][2] == {"by_game": True}
    assert shown.intact
    system = shown.messages[0]["content"]
    assert system.index("## Tools of the game") < system.index("## Standing orders")
    ContextPolicy.objects.update(options={})
    ada = Mysis.objects.get(pk=ada.pk)
    assert called_names(context_inputs.preview_context(ada).assembly.messages) == [
        "mine"
    ]


def test_the_hash_is_of_the_tools_too(admin: Client, ada: Mysis):
    digests = set()
    for options in ({}, {"allow": ["mine"]}, {"tools": "compact"}):
        ContextPolicy.objects.update(options=options)
        shown = admin.get("/myses/Ada/context/").context["shown"]
        file = admin.get("/myses/Ada/context/", {"format": "json"}).content
        assert hashlib.sha256(file).hexdigest() == shown.document["hash"]
        assert json.loads(file)["tools"] == shown.document["tools"]
        digests.add(shown.document["hash"])
    assert len(digests) == 3


def test_a_call_whose_tools_were_tampered_with_is_not_intact(ada: Mysis):
    sent = call(ada)
    digest = sent.view["tools"]["sent"]["text"]
    ContextText.objects.filter(pk=digest).update(text="[]")
    assert not render_sent(sent).intact


def test_a_past_call_is_made_again_with_its_tools(ada: Mysis, settings: Settings):
    sent = call(ada)
    store_tools(settings.SPACEMOLT_MCP_URL, "dock")
    ContextPolicy.objects.update(options={})
    past = replay.load_past_call(
        sent, context_inputs.build_subject(Mysis.objects.get(pk=ada.pk))
    )
    assert pages.assemble_again(past).digest == sent.digest
    other = pages.assemble_again(past, options={"tools": "compact"})
    offered = other.assembly.offered
    assert offered is not None
    assert {"mine", "sell", "travel"} == {tool["name"] for tool in offered.sent}
    assert "## Tools of the game" not in other.assembly.messages[0]["content"]
    tokens = other.assembly.stats["tokens_by_category"]["tools"]
    assert 0 < tokens != sent.stats["tokens_by_category"]["tools"]


def test_the_tools_can_be_tried_on_the_page(admin: Client, ada: Mysis):
    page = admin.get("/myses/Ada/context/", {"tools": "compact", "view": "tools"})
    assert page.context["tools"].mode == "compact"
    # Of the policy only that was changed, also under another strategy.
    assert page.context["tools"].allow == ("mine", "se*")
    other = admin.get("/myses/Ada/context/", {"strategy": "window", "view": "tools"})
    assert other.context["tools"].mode == "on_demand"
    assert admin.get("/myses/Ada/context/", {"tools": "some"}).status_code == 422
