"""`game` and `game_help`: the game's tools where they are offered on demand.

A model that is offered these names the tool it means. Its answer is taken up as calls of
those tools (`take_up_calls`), so everything after knows only them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from difflib import get_close_matches
from typing import Any

from jsonschema import Draft202012Validator

from agents.llm.model_types import Completion
from agents.tools.request import Outcome, Request, Tool, ToolSpec, make_refusal
from memory.context.offered_tools import (
    GAME_HELP_TOOL,
    GAME_TOOL,
    allow_tools,
    describe_tool,
)
from memory.context.tool_calls import (
    GAME,
    GAME_HELP,
    guess_policy,
    is_own_tool,
    unwrap_call,
)
from memory.context.types import Described

NEAR = 3


def take_up_calls(answer: Completion) -> Completion:
    """The answer with the calls that were made by way of `game` as what they call.

    Also under another policy than when the model learnt to say so.
    """
    return replace(answer, tool_calls=tuple(map(unwrap_call, answer.tool_calls)))


def find_callable(request: Request) -> dict[str, Described]:
    """The tools that the caller may call, by name, as a model is told of them."""
    allow = request.offered.allow if request.offered else None
    tools = request.caller.tools.items()
    known = [describe_spec(tool.spec) for name, tool in tools if name not in IN_PLACE]
    return {tool["name"]: tool for tool in allow_tools(known, allow)}


def describe_spec(spec: ToolSpec) -> Described:
    """A tool as a model is told of it."""
    return describe_tool(asdict(spec))


def answer_in_place(request: Request) -> Outcome:
    """Answer a call of `game_help`, or one of `game` that names no tool."""
    tools = find_callable(request)
    if request.name == GAME:
        wrong = "Argument 'command' must name a tool of the list."
        return make_refusal("invalid_arguments", wrong)
    names = list(dict.fromkeys(request.arguments["names"]))
    unknown = [
        {"name": name[:100], "did_you_mean": get_close_matches(name, tools, n=NEAR)}
        for name in names
        if name not in tools
    ]
    if len(unknown) == len(names):
        wrong = f"None of these is a tool that you may call: {json.dumps(unknown)}"
        return make_refusal("unknown_tool", wrong)
    found = [tools[name] for name in names if name in tools]
    answer = {"tools": found} | ({"unknown": unknown} if unknown else {})
    return Outcome((json.dumps(answer, ensure_ascii=False),))


def _define(described: Described) -> Tool:
    given: Mapping[str, Any] = described["parameters"]
    spec = ToolSpec(
        described["name"],
        described["description"],
        dict(given),
        policy=guess_policy(described["name"]),
        read_only=True,
    )
    return Tool(spec, validator=Draft202012Validator(given), local=True)


IN_PLACE: Mapping[str, Tool] = {
    GAME: _define(GAME_TOOL),
    GAME_HELP: _define(GAME_HELP_TOOL),
}


def add_schemas(outcome: Outcome, request: Request, names: Sequence[str]) -> Outcome:
    """A refusal with the schemas of the tools that were meant, as they are not sent."""
    offered, tools = request.offered, find_callable(request)
    if offered is None or not offered.through_game:
        return outcome
    meant = [name for name in names if name in tools]
    schemas = [tools[name] for name in meant if not is_own_tool(name)]
    if not schemas:
        return outcome
    text = json.dumps(schemas[0] if len(schemas) == 1 else schemas, ensure_ascii=False)
    first, *rest = outcome.blocks
    return replace(outcome, blocks=(f"{first} Schema: {text}", *rest))
