"""A search that takes too long is given up at every door, with a remedy."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client

from agents.tools.own_tool_answers import (
    LONGEST_QUERY,
    LocalRefusedError,
    Scope,
    answer_search_broadcasts,
    answer_search_messages,
    refuse_failures,
)
from agents.tools.own_tools import FOR_PROGRAMS
from memory.problems import SlowSearchError
from memory.search import query as search_query
from memory.search.results import search_messages
from tests.factories import make_memory, make_mysis

pytestmark = pytest.mark.django_db
SLEEPS = "pg_sleep(20) IS NULL"


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row takes the exact search longer than it has."""
    monkeypatch.setattr(search_query, "SECONDS", 0.05)
    monkeypatch.setattr(search_query, "LETTERS", SLEEPS)
    make_memory(make_mysis(name="Ada"), content="iron")


def test_the_bound_is_that_of_the_search_alone(
    slow: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SlowSearchError, match=r"given up after 0\.05 s: name one"):
        search_messages(query="iron", mode="exact")
    monkeypatch.setattr(search_query, "SECONDS", 60.0)
    assert len(search_messages(query="iron")) == 1
    with connection.cursor() as cursor:
        cursor.execute("SHOW statement_timeout")
        assert cursor.fetchone() == ("0",)


def test_every_door_tells_it(slow: None, admin_client: Client) -> None:
    asked = {"q": "iron", "mode": "exact"}
    answer = admin_client.get("/api/v1/search/messages", asked)
    assert answer.status_code == 422
    assert answer.json()["code"] == "too_slow"
    for page in ("/search/", "/admin/memory/memory/search/"):
        answer = admin_client.get(page, asked)
        assert answer.status_code == 200
        assert "The search was given up" in answer.content.decode()
    wanted = {"query": "iron", "mode": "exact", "mysis_id": "Ada"}
    refused = pytest.raises(LocalRefusedError, match="'query': The search was given up")
    with refused, refuse_failures():
        answer_search_messages(wanted, Scope("x"))
    with pytest.raises(CommandError, match="given up") as error:
        call_command("search", "Ada", "iron", exact=True, stdout=StringIO())
    assert error.value.returncode == 2


def test_the_admin_s_list_tells_it(
    slow: None, admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        search_query, "WORDS", f"(CASE WHEN {SLEEPS} THEN ''::tsquery END)"
    )
    answer = admin_client.get("/admin/memory/memory/", {"q": "iron"})
    assert answer.status_code == 200
    assert "The search was given up" in answer.content.decode()


def test_a_query_has_a_longest_length() -> None:
    reach, query = Scope("x"), "iron " * (LONGEST_QUERY // 5)
    assert answer_search_broadcasts({"query": query}, reach).value["count"] == 0
    with pytest.raises(LocalRefusedError, match="longer than 1000"):
        answer_search_broadcasts({"query": query + "x"}, reach)
    schema = FOR_PROGRAMS["zoea_search_broadcasts"].spec.parameters
    assert schema["properties"]["query"]["maxLength"] == LONGEST_QUERY
