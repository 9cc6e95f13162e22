"""Secrets stay hidden at every door that shows memories (A11, DESIGN section 7)."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command
from django.test import Client

from agents.models import Broadcast, Mysis, ToolCatalogue
from agents.tools import own_tool_answers
from agents.tools.own_tool_answers import Scope
from memory.models.secret_tools import read_secret_tools
from tests.factories import make_call, make_memory, make_mysis

pytestmark = pytest.mark.django_db

SESSION = "0123456789abcdef0123456789abcdef"
SAID = f"iron: session_id={SESSION} end"


@pytest.fixture
def ada() -> Mysis:
    ada = make_mysis(name="Ada")
    call = make_call("login", f'{{"password": "{SESSION}"}}')
    make_memory(ada, role="assistant", content=SAID, reasoning=SAID, tool_calls=[call])
    Broadcast.objects.create(text=SAID, sender="x")
    return ada


@pytest.fixture
def secret(ada: Mysis) -> None:
    """A tool whose calls nobody may read, called once."""
    tools = [{"name": "set_pin", "policy": "secret"}, {"name": "mine", "policy": "x"}]
    ToolCatalogue.objects.create(pk=settings.SPACEMOLT_MCP_URL, tools=tools)
    call = make_call("set_pin", '{"pin": 4711}', call_id="p")
    spelt = '{"arguments":{"pin":4711},"command":"set_pin"}'
    other = call | {"via": "game", "original": spelt}
    make_memory(ada, role="assistant", content="", tool_calls=[other])
    # As it was refused: with something beside it, and cut off.
    named = '{"command": "set_pin", "arguments": {"pin": 4711}, "why": ""}'
    for raw in (named, named[:-20]):
        wrapped = {"name": "game", "arguments": raw}
        refused = call | {"function": wrapped}
        make_memory(ada, role="assistant", content="", tool_calls=[refused])
    make_memory(ada, role="assistant", content="", tool_calls=[call])
    make_memory(
        ada, role="tool", origin="tool", tool_name="set_pin", content="pin 4711"
    )


def everywhere(query: str, client: Client) -> list[str]:
    """What each door answers to a search, and the log beside it."""
    texts = []
    for mode in ("fts", "exact"):
        asked = {"q": query, "mode": mode}
        for where in ("messages", "reasoning", "broadcasts"):
            texts.append(client.get(f"/api/v1/search/{where}", asked).content.decode())
        for tool in (
            own_tool_answers.answer_search_messages,
            own_tool_answers.answer_search_reasoning,
            own_tool_answers.answer_search_broadcasts,
        ):
            given = {"query": query, "mode": mode, "mysis_id": "Ada"}
            texts.append(json.dumps(tool(given, Scope("x")).value))
        for where in ("messages", "reasoning"):
            out = StringIO()
            call_command(
                "search", "Ada", query, where=where, json=True,
                exact=mode == "exact", stdout=out,
            )  # fmt: skip
            texts.append(out.getvalue())
        for where in ("messages", "reasoning", "broadcasts"):
            page = client.get("/search/", {**asked, "where": where}).content.decode()
            texts.append(page.partition("</form>")[2])
    return texts


def test_secrets_are_in_no_hit(ada: Mysis, admin_client: Client) -> None:
    for text in everywhere("iron", admin_client):
        assert "iron" in text
        assert SESSION not in text
        assert "[hidden]" in text


def test_secrets_are_not_in_the_log(ada: Mysis, admin_client: Client) -> None:
    text = admin_client.get("/api/v1/myses/Ada/memories").content.decode()
    assert SESSION not in text
    assert "iron" in text


def test_calls_of_secret_tools_are_neither_found_nor_shown(
    secret: None, admin_client: Client
) -> None:
    assert read_secret_tools() == {"set_pin", "game"}
    for text in everywhere("4711", admin_client):
        assert "set_pin" not in text
        assert "pin 4711" not in text
    log = admin_client.get("/api/v1/myses/Ada/memories").json()["items"]
    assert [row["content"] for row in log[-2:]] == ["", "[hidden]"]
    assert "4711" not in json.dumps(log)


@pytest.mark.parametrize("where", ["messages", "reasoning", "broadcasts"])
def test_a_last_page_that_is_full_has_no_next(
    ada: Mysis, admin_client: Client, where: str
) -> None:
    make_memory(ada, content="iron", reasoning="iron")
    Broadcast.objects.create(text="iron", sender="x")

    def page(limit: int, before: str = "") -> Any:
        asked = {"q": "iron", "limit": str(limit)}
        asked |= {"before": before} if before else {}
        return admin_client.get(f"/api/v1/search/{where}", asked).json()

    full, first = page(2), page(1)
    assert (len(full["items"]), full["next"]) == (2, None)
    last = page(1, first["next"])
    assert (first["items"] + last["items"], last["next"]) == (full["items"], None)
