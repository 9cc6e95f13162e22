"""`game` and `game_help`: what a wrong call is told, and what may be called."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from agents.llm.model_types import Completion
from agents.tools.chain import _describe_call
from agents.tools.game_calls import IN_PLACE, describe_spec, take_up_calls
from agents.tools.guard import guard
from agents.tools.own_tools import FOR_MYSES, answer_locally
from agents.tools.request import Outcome, Request, ToolSession
from memory.context.offered_tools import MOST_NAMES, offer_tools
from memory.context.tool_calls import GAME
from memory.context.types import OfferedTools, ToolCall
from memory.redaction import HIDDEN
from tests.agents.tools.test_guard import TOOLS

ALL = {**IN_PLACE, **TOOLS, **FOR_MYSES}
KNOWN = [describe_spec(t.spec) for n, t in ALL.items() if n not in IN_PLACE]


def offer(mode: str = "on_demand", allow: list[str] | None = None) -> OfferedTools:
    return offer_tools(KNOWN, mode, allow)


async def call(name: str, given: Any, offered: OfferedTools | None = None) -> Outcome:
    """Through the guard to our own tools; what passes to the game is "sent"."""
    raw = given if isinstance(given, str) else json.dumps(given)
    request = Request(ToolSession(1, ALL), name, raw, offered=offered or offer())

    async def send(request: Request) -> Outcome:
        return Outcome(("sent",))

    return await guard(request, lambda passed: answer_locally(passed, send))


def read_schema(outcome: Outcome) -> Any:
    assert outcome.is_error
    return json.loads(outcome.text.partition(" Schema: ")[2])


async def test_a_wrong_call_is_answered_with_the_schema():
    wrong = await call("buy", {"item_id": "x"})
    assert wrong.text.startswith(
        "Error: invalid_arguments: Argument 'quantity' is miss"
    )
    schema = read_schema(wrong)
    assert schema == describe_spec(TOOLS["buy"].spec)
    assert "session_id" not in schema["parameters"]["properties"]
    near = await call("travle", {})
    assert near.text.startswith("Error: unknown_tool: There is no tool 'travle'.")
    assert read_schema(near)["name"] == "travel"


async def test_what_stands_beside_the_command_is_answered_with_its_schema():
    wrong = await call(GAME, {"command": "travel", "target_poi": "a"})
    assert "Unknown argument 'target_poi'" in wrong.text
    assert read_schema(wrong)["name"] == "travel"
    for given in ({}, {"command": 3}, "[]", "nonsense"):
        lost = await call(GAME, given)
        assert lost.is_error
        assert "Schema" not in lost.text
    blank = await call(GAME, {"command": "  "})
    assert "must name a tool of the list" in blank.text


async def test_no_schema_is_told_where_all_are_sent():
    for mode in ("full", "compact"):
        assert "Schema" not in (await call("buy", {}, offer(mode))).text
    own = await call("zoea_recall", {})
    assert own.is_error
    assert "Schema" not in own.text


@pytest.mark.parametrize("mode", ["full", "compact", "on_demand"])
async def test_what_is_not_allowed_is_refused(mode: str):
    offered = offer(mode, ["do*", "buy"])
    assert (await call("dock", {}, offered)).text == "sent"
    refused = await call("travel", {"target_poi": "a"}, offered)
    assert refused.is_error
    assert refused.text == (
        "Error: tool_not_allowed: The context policy does not allow travel. Of the "
        "game's there are buy, dock."
    )
    near = await call("travle", {}, offered)
    assert "travel" not in near.text.replace("travle", "")
    # Our own are none of the game's.
    assert (await call("zoea_recall", {}, offered)).text != refused.text
    nothing = await call("dock", {}, offer(mode, []))
    assert nothing.text.endswith("does not allow dock.")


async def test_who_calls_by_hand_may_call_all():
    request = Request(ToolSession(1, ALL), "dock", "{}")

    async def send(request: Request) -> Outcome:
        return Outcome(("sent",))

    assert (await guard(request, send)).text == "sent"


async def test_help_gives_schemas_as_json():
    answer = await call("game_help", {"names": ["buy", "dock", "buy", "travle"]})
    found = json.loads(answer.text)
    assert [tool["name"] for tool in found["tools"]] == ["buy", "dock"]
    assert found["tools"][0] == describe_spec(TOOLS["buy"].spec)
    assert found["unknown"] == [{"name": "travle", "did_you_mean": ["travel"]}]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "Argument 'names' is missing"),
        ({"names": []}, "minItems"),
        ({"names": ["dock"] * (MOST_NAMES + 1)}, "maxItems: 20"),
        ({"names": "dock"}, "cannot be"),
        ({"names": [1]}, "cannot be 1"),
        ({"names": ["zzz"]}, "unknown_tool: None of these is a tool"),
        ({"names": ["travel"]}, "None of these is a tool that you may call"),
    ],
)
async def test_help_says_what_is_wrong(given: Any, says: str):
    answer = await call("game_help", given, offer("on_demand", ["dock"]))
    assert answer.is_error
    assert says in answer.text


def test_calls_are_taken_up_as_those_of_the_tools():
    calls = (
        ToolCall("1", GAME, '{"command": "dock"}'),
        ToolCall("2", "zoea_recall", "{}"),
        ToolCall("3", "dock", "{}"),
    )
    answer = Completion("", tool_calls=calls)
    found = take_up_calls(answer).tool_calls
    assert [each.name for each in found] == ["dock", "zoea_recall", "dock"]
    assert [each.via for each in found] == [GAME, "", ""]


@pytest.mark.parametrize(
    ("raw", "policy"),
    [
        (
            '{"command": "keep", "arguments": {"entry": "mine own"}, "why": ""}',
            "secret",
        ),
        ('{"command": "keep", "arguments": {"entry": "mine own', "secret"),
        ('{"command": "dock", "why": ""}', "mutation"),
    ],
)
async def test_a_refused_call_is_recorded_as_one_of_what_it_names(
    raw: str, policy: str
):
    keep = replace(TOOLS["dock"], spec=replace(TOOLS["dock"].spec, policy="secret"))
    request = Request(ToolSession(1, {**ALL, "keep": keep}), GAME, raw)
    outcome = await guard(request, lambda _: pytest.fail("it was called"))
    assert outcome.is_error
    assert request.is_secret is (policy == "secret")
    _, _, data = _describe_call(request, outcome, 1)
    assert (data["arguments"] == HIDDEN) is (policy == "secret")
    assert "mine own" not in json.dumps(data)
