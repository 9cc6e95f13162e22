"""Bad calls go nowhere and say what would be right."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.game.client import GameTool
from agents.tools.catalogue import build_tools
from agents.tools.guard import ArgumentsError, guard, read_arguments
from agents.tools.request import Outcome, Request, Tool, ToolSession

SESSION = {"session_id": {"type": "string"}}
TOOLS = build_tools(
    [
        GameTool(
            "travel",
            "",
            {
                "type": "object",
                "properties": {**SESSION, "target_poi": {"type": "string"}},
                "required": ["session_id", "target_poi"],
            },
        ),
        GameTool(
            "buy",
            "",
            {
                "type": "object",
                "properties": {
                    **SESSION,
                    "item_id": {"type": "string"},
                    "quantity": {"type": "integer", "minimum": 1},
                    "side": {"enum": ["ask", "bid"]},
                },
                "required": ["session_id", "item_id", "quantity"],
            },
        ),
        GameTool("dock", "", {"type": "object", "properties": SESSION}),
        GameTool("open", "", {"type": "object", "additionalProperties": True}),
        GameTool("broken", "", {"type": "object", "properties": {"a": {"type": 7}}}),
        GameTool(
            "remote",
            "",
            {"properties": {"a": {"$ref": "http://127.0.0.1:9/schema.json"}}},
        ),
    ],
    {},
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


async def _guarded(name: str, raw: str) -> tuple[Outcome, list[Request]]:
    passed: list[Request] = []

    async def call_next(request: Request) -> Outcome:
        passed.append(request)
        return Outcome(("ok",))

    outcome = await guard(Request(ToolSession(1, TOOLS), name, raw), call_next)
    return outcome, passed


@pytest.mark.parametrize(
    ("name", "raw", "says"),
    [
        ("travel", "{}", "Argument 'target_poi' is missing"),
        ("travel", '{"target_poi": null}', "Argument 'target_poi' of travel"),
        ("travel", '{"poi": "sol"}', "'target_poi' is missing"),
        (
            "travel",
            '{"target_poi": "a", "target": "b"}',
            "Unknown argument 'target'. Did you mean 'target_poi'?",
        ),
        ("dock", '{"now": true}', "Unknown argument 'now'. dock takes no arguments."),
        ("buy", '{"item_id": "x", "quantity": "5"}', "Argument 'quantity'"),
        ("buy", '{"item_id": "x", "quantity": 0}', "minimum: 1"),
        ("buy", '{"item_id": "x", "quantity": 1, "side": "up"}', "enum"),
        ("travel", "[1]", "one JSON object"),
        ("travel", '"sol"', "one JSON object"),
        ("travel", '{"target_poi": ', "not valid JSON"),
        ("travel", '{"target_poi": NaN}', "NaN is no JSON number"),
        ("travel", "[" * 100_000, "nested too deep"),
        ("travle", "{}", "Did you mean travel"),
        ("zzz", "{}", "There are broken, buy, dock"),
        ("", "{}", "There is no tool ''"),
    ],
)
async def test_a_bad_call_is_refused_with_the_remedy(
    name: str, raw: str, says: str
) -> None:
    outcome, passed = await _guarded(name, raw)
    assert outcome.is_error
    assert says in outcome.text
    assert outcome.text.startswith("Error: ")
    assert passed == []


@pytest.mark.parametrize(
    ("name", "raw", "arguments"),
    [
        ("dock", "", {}),
        ("dock", "null", {}),
        ("dock", '{"session_id": "made up"}', {}),
        ("buy", '{"item_id": "x", "quantity": 2, "side": null}', None),
        ("open", '{"anything": [1]}', {"anything": [1]}),
        ("broken", '{"a": 1}', {"a": 1}),
        ("remote", '{"a": 1}', {"a": 1}),
    ],
)
async def test_a_good_call_goes_on_without_what_models_invent(
    name: str, raw: str, arguments: dict[str, Any] | None
) -> None:
    outcome, passed = await _guarded(name, raw)
    assert not outcome.is_error, outcome.text
    expected = {"item_id": "x", "quantity": 2} if arguments is None else arguments
    assert passed[0].arguments == expected


@given(st.sampled_from(sorted(TOOLS)), JSON)
def test_whatever_passes_fits_the_schema(name: str, value: Any) -> None:
    tool: Tool = TOOLS[name]
    try:
        arguments = read_arguments(json.dumps(value), tool)
    except ArgumentsError as error:
        assert name in str(error)
        return
    assert not {"session_id", "password"} & set(arguments)
    if name in ("travel", "buy"):
        assert tool.validator is not None
        assert tool.validator.is_valid(arguments)


@given(st.text())
def test_no_text_breaks_the_reading(raw: str) -> None:
    try:
        assert isinstance(read_arguments(raw, TOOLS["buy"]), dict)
    except ArgumentsError as error:
        assert "buy" in str(error)
