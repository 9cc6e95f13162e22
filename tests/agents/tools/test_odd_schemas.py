"""No schema of a game's server ends a turn: what cannot be used says nothing."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.game.client import GameTool
from agents.tools.catalogue import MOST_LEVELS, build_tools
from agents.tools.guard import ArgumentsError, check_arguments
from memory.context.offered_tools import LONGEST_LINE, offer_tools
from memory.context.types import TOOL_MODES

_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-1, 3)
    | st.floats(0, 2)
    | st.sampled_from(["a", "buy", "object", "#", "#/title", "http://[x", "(", "a\nb"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "properties",
                    "required",
                    "action",
                    "enum",
                    "type",
                    "$ref",
                    "$id",
                    "items",
                    "anyOf",
                    "title",
                    "a",
                    "buy",
                    "description",
                    "additionalProperties",
                    "patternProperties",
                    "$schema",
                    "pattern",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)
_schemas = st.fixed_dictionaries(
    {},
    optional={
        "properties": st.dictionaries(st.sampled_from(["action", "a", "a\nb"]), _values)
        | _values,
        "required": st.lists(_values, max_size=3) | _values,
        "type": _values,
        "$ref": _values,
        "$schema": _values,
        "$id": _values,
        "title": _values,
        "anyOf": _values,
        "additionalProperties": _values,
    },
)


@given(
    st.sampled_from(["mine", "spacemolt"]),
    _schemas,
    st.sampled_from([None, ("buy",), ("*",), ()]),
)
def test_any_schema_can_be_offered_and_called(name: str, schema: Any, allow: Any):
    before = json.dumps(schema)
    tool = build_tools([GameTool(name, "Dig.", schema)], {})[name]
    assert json.dumps(schema) == before
    for parameters in (schema, tool.spec.parameters):
        known = [{"name": name, "description": "Dig.", "parameters": parameters}]
        for mode in TOOL_MODES:
            offered = offer_tools(known, mode, allow)
            assert len(offered.catalogue.splitlines()) <= 1
            assert len(offered.catalogue) <= LONGEST_LINE
            json.dumps(offered.sent)
    for arguments in ({}, {"a": 1}, {"action": "buy"}):
        with suppress(ArgumentsError):
            check_arguments(arguments, tool)


@pytest.mark.parametrize(
    "schema",
    [
        {"required": [{}]},
        {"required": 5},
        {"$schema": {}},
        {"$schema": "http://[x"},
        {"$ref": "#", "additionalProperties": True},
        {"$ref": "#/title", "title": "x"},
    ],
)
def test_what_such_a_schema_cannot_say_is_left_to_the_server(schema: dict[str, Any]):
    tool = build_tools([GameTool("mine", "", schema)], {})["mine"]
    assert check_arguments({}, tool) == {}


def test_a_schema_that_nests_without_end_says_nothing():
    deep: dict[str, Any] = {"type": "object"}
    for _ in range(900):
        deep = {"properties": {"a": deep}}
    tool = build_tools([GameTool("mine", "", deep)], {})["mine"]
    assert tool.spec.parameters["properties"] == {}
    flat: dict[str, Any] = {"a": {"b": {}}}
    for _ in range(MOST_LEVELS // 3):
        flat = {"items": flat}
    tool = build_tools([GameTool("mine", "", {"properties": flat})], {})["mine"]
    assert tool.spec.parameters["properties"] == flat


@pytest.mark.parametrize("closed", [{}, {"additionalProperties": False}])
def test_a_required_name_without_a_property_is_asked_for(closed: dict[str, Any]):
    """Else a model leaves out what the server then refuses the call for."""
    schema = {
        "type": "object",
        "properties": {"ore": {"type": "string"}},
        "required": ["session_id", "ore", "count", "count"],
        **closed,
    }
    tool = build_tools([GameTool("mine", "Dig.", schema)], {})["mine"]
    assert tool.spec.parameters["properties"] == {
        "ore": {"type": "string"},
        "count": {},
    }
    assert tool.spec.parameters["required"] == ["ore", "count"]
    # What the program fills in it fills in, described or not.
    assert tool.needs == {"session_id"}
    check_arguments({"ore": "iron", "count": 3}, tool)
    with pytest.raises(ArgumentsError, match="count"):
        check_arguments({"ore": "iron"}, tool)
