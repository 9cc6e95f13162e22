"""Search: full text and exact, per Mysis and across the fleet."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from agents.models import Broadcast
from memory.search.results import search_messages
from tests.factories import make_memory, make_mysis

pytestmark = pytest.mark.django_db


def contents(**wanted: Any) -> list[str]:
    return [hit.content for hit in search_messages(**wanted)]


def test_full_text_finds_all_words_newest_first():
    """A9: by id, which rises, so rows of one moment keep their order."""
    ada = make_mysis()
    make_memory(ada, content="iron ore at Sol")
    make_memory(ada, content="copper at Sol")
    make_memory(ada, content="ORE made of IRON")
    assert contents(query="iron ore") == ["ORE made of IRON", "iron ore at Sol"]
    assert contents(query="iron -sol") == ["ORE made of IRON"]
    assert contents(query='"iron ore"') == ["iron ore at Sol"]


def test_a_search_in_one_mysis_never_shows_another():
    """W10, I31: a search is scoped to one Mysis."""
    ada, bob = make_mysis(), make_mysis()
    make_memory(ada, content="iron here")
    make_memory(bob, content="iron there")
    assert contents(query="iron", mysis_id=ada.pk) == ["iron here"]
    assert contents(query="iron", mysis_id=bob.pk, mode="exact") == ["iron there"]


def test_exact_tells_case_apart_and_knows_no_wildcards():
    """W10, A8: letter for letter, without wildcards."""
    ada = make_mysis()
    for text in ("100% iron", "100 percent", "a_b", "axb", "Iron"):
        make_memory(ada, content=text)
    assert contents(query="100%", mode="exact") == ["100% iron"]
    assert contents(query="a_b", mode="exact") == ["a_b"]
    assert contents(query="iron", mode="exact") == ["100% iron"]


def test_snippets_are_escaped_and_marked():
    ada = make_mysis()
    make_memory(ada, content="<script>iron</script> <mark>forged</mark>")
    (fts,) = search_messages(query="iron")
    (exact,) = search_messages(query="iron", mode="exact")
    for hit in (fts, exact):
        assert "<mark>iron</mark>" in hit.snippet
        assert "<script>" not in hit.snippet
        assert "<mark>forged" not in hit.snippet
    (hit,) = search_messages(query="iron -copper or IRON")
    assert hit.snippet.count("<mark>") == 1


def test_reasoning_is_searched_apart():
    """W12: what was thought is a field of its own."""
    ada = make_mysis()
    make_memory(ada, role="assistant", content="go", reasoning="the cooldown ends")
    make_memory(ada, content="cooldown")
    (hit,) = search_messages(query="cooldown", reasoning=True)
    assert hit.reasoning == "the cooldown ends"


def test_a_broadcast_is_found_once_across_the_fleet():
    """W11, A9: one broadcast is one hit."""
    broadcast = Broadcast.objects.create(text="enemy spotted", sender="x")
    for _ in range(3):
        make_memory(
            make_mysis(),
            origin="broadcast",
            broadcast=broadcast,
            content=broadcast.text,
        )
    assert len(search_messages(query="enemy")) == 1


def test_other_scripts_are_found():
    ada = make_mysis()
    make_memory(ada, content="Привет мир")
    make_memory(ada, content="مرحبا بالعالم")
    assert contents(query="привет") == ["Привет мир"]
    assert contents(query="مرحبا") == ["مرحبا بالعالم"]
    make_memory(ada, content="鉄鉱石を掘る")
    assert contents(query="鉱石", mode="exact") == ["鉄鉱石を掘る"]


def test_words_in_paths_hosts_and_tags_are_found():
    ada = make_mysis()
    text = "<b>Sol/Belt</b> mail@example.com a=ore_iron"
    make_memory(ada, content=text)
    for query in ("belt", "Sol/Belt", "example", "iron", "b"):
        assert contents(query=query) == [text], query


def test_a_huge_message_is_stored_and_found_by_its_head():
    ada = make_mysis()
    make_memory(ada, content="needle " + " ".join(str(n) for n in range(300_000)))
    assert len(contents(query="needle")) == 1


def test_the_index_is_used_for_one_mysis():
    ada = make_mysis()
    make_memory(ada, content="iron")
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(
            "EXPLAIN SELECT id FROM memory_memory WHERE content_vector @@ "
            "(websearch_to_tsquery('simple', 'iron') && %s::tsquery)",
            [f"'mysis:{ada.pk}'"],
        )
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "memory_content_fts" in plan
