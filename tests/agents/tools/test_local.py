"""A Mysis searches its own memory, and nobody else's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agents.db import run_in_db
from agents.models import Broadcast, Mysis
from agents.tools.chain import Toolbox, open_toolbox
from agents.tools.own_tool_answers import LONGEST_CONTENT, excerpt
from tests.agents.game.faulty import FaultyServer
from tests.factories import make_memory


@pytest.fixture
async def box(faulty: FaultyServer, mysis: Mysis, other: Mysis) -> Toolbox:
    await run_in_db(_history, mysis, other)
    return await open_toolbox(mysis.pk)


def _history(mysis: Mysis, other: Mysis) -> None:
    for number in range(5):
        make_memory(mysis, content=f"iron ore {number}")
    make_memory(
        mysis, role="assistant", content="Onward.", reasoning="iron is cheap here"
    )
    make_memory(other, content="iron ore of Bob")
    sent = Broadcast.objects.create(text="iron to Sol", sender="operator:ann")
    Broadcast.objects.create(text="iron for others", sender="operator:ann")
    make_memory(mysis, origin="broadcast", content=sent.text, broadcast=sent)


async def _matches(box: Toolbox, tool: str, **arguments: Any) -> list[dict[str, Any]]:
    answer = await box.call(tool, json.dumps(arguments))
    assert not answer.is_error, answer.text
    value = json.loads(answer.text)
    assert value["count"] == len(value["matches"])
    return list(value["matches"])


async def test_the_newest_matches_come_oldest_first(box: Toolbox) -> None:
    """W10, I31: the newest ones are chosen, the oldest of them comes first."""
    found = await _matches(box, "zoea_search_messages", query="iron ore", limit=3)
    assert [hit["content"] for hit in found] == [f"iron ore {n}" for n in (2, 3, 4)]
    assert {"memory_id", "role", "source", "content", "timestamp"} == set(found[0])
    assert (found[0]["role"], found[0]["source"]) == ("user", "human")


async def test_nothing_found_is_an_empty_result(box: Toolbox) -> None:
    assert await _matches(box, "zoea_search_messages", query="gold") == []
    assert await _matches(box, "zoea_search_messages", query="Bob") == []


async def test_exact_search_tells_cases_apart(box: Toolbox) -> None:
    exact = {"mode": "exact"}
    assert await _matches(box, "zoea_search_messages", query="ron ore 4", **exact)
    assert not await _matches(box, "zoea_search_messages", query="Iron", **exact)


async def test_reasoning_is_searched_apart(box: Toolbox) -> None:
    """W12."""
    (hit,) = await _matches(box, "zoea_search_reasoning", query="cheap")
    assert (hit["reasoning"], hit["content"]) == ("iron is cheap here", "Onward.")


async def test_only_broadcasts_that_were_received_are_found(box: Toolbox) -> None:
    """W11, I27."""
    (hit,) = await _matches(box, "zoea_search_broadcasts", query="iron")
    assert (hit["content"], hit["sender"]) == ("iron to Sol", "operator:ann")


@pytest.mark.parametrize("tool", ["zoea_search_messages", "zoea_search_reasoning"])
async def test_the_history_of_another_is_refused(
    box: Toolbox, tool: str, mysis: Mysis, other: Mysis
) -> None:
    for reference in (other.pk, "Bob", 999_999):
        arguments = json.dumps({"query": "iron", "mysis_id": reference})
        refused = await box.call(tool, arguments)
        assert refused.is_error
        assert "another Mysis" in refused.text
    for own in (mysis.pk, str(mysis.pk), "Ada", "self"):
        assert await _matches(box, tool, query="iron", mysis_id=own)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "'query' is missing"),
        ({"query": "  "}, "'query' is empty"),
        ({"query": "x", "limit": 0}, "'limit'"),
        ({"query": "x", "limit": 101}, "'limit'"),
        ({"query": "x", "mode": "fuzzy"}, "'mode'"),
    ],
)
async def test_a_bad_search_is_an_error_result(
    box: Toolbox, arguments: dict[str, Any], says: str
) -> None:
    refused = await box.call("zoea_search_messages", json.dumps(arguments))
    assert refused.is_error
    assert says in refused.text


async def test_our_tools_never_reach_the_game(
    box: Toolbox, faulty: FaultyServer
) -> None:
    await box.call("zoea_search_messages", '{"query": "iron"}')
    assert faulty.calls == []


def test_a_long_text_is_cut_around_the_hit() -> None:
    text = "a " * 5000 + "Needle" + " b" * 5000
    shown = excerpt(text, "missing needle")
    assert "Needle" in shown
    assert len(shown) < LONGEST_CONTENT + 60
    assert f"({len(text) - LONGEST_CONTENT} characters not shown)" in shown
    assert excerpt("short", "x") == "short"
    assert "see ctx://7/12)" in excerpt(text, "needle", "ctx://7/12")
