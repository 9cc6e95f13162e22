"""What is hidden cannot be found or counted, in whole or in part, by any search (A11)."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from agents import record_search
from agents.models import Broadcast, Event, Mysis, Order, Pin, Prompt, PromptVersion
from agents.tools import own_tool_answers
from agents.tools.own_tool_answers import Scope
from memory.models import Note
from memory.search.results import search_messages
from memory.search.visibility import SAMPLE
from tests.factories import (
    make_account,
    make_call,
    make_memory,
    make_mysis,
    make_summary,
)

pytestmark = pytest.mark.django_db

SEALED = "opensesame-4711-vault"
TEXT = f"iron; password: hunter2x9; the gate opens with {SEALED} today"
# The whole, parts of it, and what stands half inside of it.
GUESSES = (
    "hunter2x9", "hunter2", "ter2x", "ord: hun", SEALED, "sesame-47", "opensesame",
    "with open", "vault today", "with o",
)  # fmt: skip
WORDS = ("hunter2x9", "opensesame", "vault", f'"{SEALED}"')


@pytest.fixture
def ada() -> Mysis:
    """A log, and everything beside it, from before anything was hidden."""
    make_account(password=SEALED)
    ada = make_mysis(name="Ada")
    call = make_call("chat", json.dumps({"content": TEXT}))
    make_memory(ada, role="assistant", content=TEXT, reasoning=TEXT)
    row = make_memory(ada, role="assistant", content="", tool_calls=[call])
    type(row).objects.filter(pk=row.pk).update(calls_text=f"[called chat with {TEXT}]")
    Broadcast.objects.create(text=TEXT, sender="x")
    Order.objects.create(text=TEXT, sender="x")
    Pin.objects.create(mysis=ada, text=TEXT)
    Event.objects.create(kind="error", mysis=ada, data={"detail": TEXT})
    PromptVersion.objects.create(
        prompt=Prompt.objects.create(name="captain"), number=1, text=TEXT, note="first"
    )
    Note.objects.create(
        mysis=ada,
        name="gate",
        text=TEXT,
        version=1,
        author="x",
        written_at=row.created_at,
    )
    make_summary(ada, text=TEXT)
    return ada


def count(query: str, mode: Any) -> int:
    return sum(
        found.number
        for found in record_search.count_hits(query=query, mode=mode).values()
    )


@pytest.mark.parametrize(("queries", "mode"), [(GUESSES, "exact"), (WORDS, "fts")])
def test_no_search_finds_or_counts_what_is_hidden(
    ada: Mysis, admin_client: Client, queries: tuple[str, ...], mode: str
) -> None:
    assert count("iron", mode) == 11
    for query in queries:
        assert count(query, mode) == 0, query
        for kind in record_search.RECORDS:
            assert record_search.search_records(kind, query=query, mode=mode) == []  # type: ignore[arg-type]
    check_doors(queries[0], mode, admin_client)


def check_doors(query: str, mode: str, client: Client) -> None:
    """No door finds what the search below all of them does not."""
    asked = {"q": query, "mode": mode}
    for where in ("messages", "reasoning", "broadcasts"):
        found = client.get(f"/api/v1/search/{where}", asked).json()
        assert found == {"items": [], "next": None}, where
    given = {"query": query, "mode": mode, "mysis_id": "Ada"}
    for answer in (
        own_tool_answers.answer_search_messages,
        own_tool_answers.answer_search_reasoning,
        own_tool_answers.answer_search_broadcasts,
    ):
        assert answer(given, Scope("x")).value["count"] == 0
    for where in ("messages", "reasoning", "notes"):
        out = StringIO()
        call_command(
            "search", "Ada", query, where=where, json=True, exact=mode == "exact",
            stdout=out, stderr=StringIO(),
        )  # fmt: skip
        assert json.loads(out.getvalue()) == []
    listed = client.get("/admin/memory/memory/", {"q": query}).content.decode()
    assert mode == "exact" or "0 memories" in listed


def test_what_is_shown_is_found_behind_what_is_hidden(ada: Mysis) -> None:
    """A page is filled with matches that can be seen, however many others lie between."""
    old = make_memory(ada, content="vault of iron")
    for _ in range(5):
        make_memory(ada, content=f"it is {SEALED}")
    new = make_memory(ada, content="vault of gold")
    for mode in ("fts", "exact"):
        hits = search_messages(query="vault", mode=mode, limit=2)
        assert [hit.memory_id for hit in hits] == [new.pk, old.pk]


def test_no_number_tells_of_hidden_matches_that_nobody_looked_at(ada: Mysis) -> None:
    for _ in range(SAMPLE + 20):
        make_memory(ada, content=f"it is {SEALED}")
    found = record_search.count_hits(query=SEALED, mode="exact")["messages"]
    assert found.number == 0
