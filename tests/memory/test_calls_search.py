"""What is said in the arguments of calls is found, shown, and without secrets."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.conf import settings
from hypothesis import given
from hypothesis import strategies as st

from agents.models import ToolCatalogue
from memory.models import Memory
from memory.models.vectors import describe_calls
from memory.search.query import build_candidate_query
from memory.search.results import search_messages
from tests.factories import make_call, make_memory, make_mysis

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))


def speech(mysis: Any, *calls: dict[str, Any], content: str = "") -> Memory:
    return make_memory(
        mysis, role="assistant", origin="agent", content=content, tool_calls=[*calls]
    )


def found(query: str, **wanted: Any) -> list[str]:
    return [hit.content for hit in search_messages(query=query, **wanted)]


@given(TEXTS, st.booleans())
def test_arguments_are_told_as_they_were_meant(text: str, ascii_only: bool) -> None:
    said = describe_calls(
        [make_call("note", json.dumps({"a": text}, ensure_ascii=ascii_only))]
    )
    assert said == f'[called note with {{"a": "{text}"}}]'


@given(st.text(alphabet='\\u0dnx"{a', max_size=20))
def test_arguments_that_are_no_json_are_told_too(text: str) -> None:
    said = describe_calls([make_call("note", text)])
    assert said.startswith("[called note with ")
    said.encode()
    assert "\x00" not in said


@pytest.mark.django_db
def test_what_is_said_in_a_call_is_found_by_words_and_by_letters() -> None:
    ada = make_mysis()
    entry = 'Sold at "Sol"\nBelt: très cher'
    row = speech(ada, make_call("captains_log_add", json.dumps({"entry": entry})))
    speech(ada, make_call("mine", "{}"), content="Mining.")
    for query in ("belt", "très", "captains_log_add sold", '"sol belt"'):
        (hit,) = search_messages(query=query, mysis_id=ada.pk)
        assert hit.memory_id == row.pk, query
        assert entry in hit.content
    for query in ('"Sol"\nBelt', "log_add with", "cher"):
        (hit,) = search_messages(query=query, mysis_id=ada.pk, mode="exact")
        assert hit.memory_id == row.pk, query
    (hit,) = search_messages(query="belt", mysis_id=ada.pk)
    assert "<mark>Belt</mark>" in hit.snippet
    assert found("sell", stem=True) == []
    assert len(found("belts", stem=True)) == 1
    assert found("mining") == ["Mining.\n[called mine with {}]"]


@pytest.mark.django_db
def test_a_password_in_a_call_is_neither_found_nor_shown() -> None:
    """A11."""
    ada = make_mysis()
    speech(ada, make_call("login", '{"username": "Ada", "password": "hunter2"}'))
    assert found("hunter2") == found("hunter2", mode="exact") == []
    (text,) = found("username")
    assert "Ada" in text
    assert "hunter2" not in text


@pytest.mark.django_db
def test_calls_of_secret_tools_are_no_match_but_what_is_said_beside_is() -> None:
    tools = [{"name": "set_pin", "policy": "secret"}]
    ToolCatalogue.objects.create(pk=settings.SPACEMOLT_MCP_URL, tools=tools)
    ada = make_mysis()
    speech(ada, make_call("set_pin", '{"pin": "4711"}'), content="Setting it.")
    speech(ada, make_call("mine", '{"at": "4711"}'))
    for wanted in ({}, {"mode": "exact"}, {"stem": True}):
        (text,) = found("4711", **wanted)
        assert "[called mine" in text
        (text,) = found("Setting", **wanted)
        assert text == "Setting it.\n[called set_pin with [hidden]]"


@pytest.mark.django_db
@pytest.mark.parametrize("word", ["mysis", "my", "m", "myses"])
def test_a_stem_finds_no_row_by_its_owner(word: str) -> None:
    make_memory(make_mysis(), content="iron")
    row = make_memory(make_mysis(), content="Mysis, my myses, m")
    stems = build_candidate_query(word) or "'mysis'"
    rows = Memory.objects.extra(where=["content_vector @@ %s::tsquery"], params=[stems])
    assert list(rows) == [row]
