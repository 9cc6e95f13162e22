"""The options `tools` and `allow` over REST and in documents."""

from __future__ import annotations

from typing import Any

import pytest

from memory.context.assemble import assemble
from memory.context.documents import build_result_document, parse_request
from memory.context.json_fields import DocumentError
from memory.context.tool_calls import GAME
from tests.context.cases import STRATEGIES
from tests.context.tools import OWN, list_described
from tests.factories import make_call
from tests.programs import Program


def document(**more: Any) -> dict[str, Any]:
    call = make_call("dock", call_id="c1")
    log = [
        {"role": "user", "content": "Dock."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "docked"},
    ]
    return {"messages": log, "system": "You are Ada.", "pins": ["Stay."], **more}


def build(**more: Any) -> dict[str, Any]:
    return build_result_document(assemble(parse_request(document(**more))))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_document_gives_tools_and_gets_them_as_sent(strategy: str):
    tools = list_described()
    full = build(strategy=strategy, tools=tools)
    assert (full["tools"], full["catalogue"]) == (tools, "")
    found = build(strategy=strategy, tools=tools, options={"tools": "on_demand"})
    names = [tool["name"] for tool in found["tools"]]
    assert names == ["zoea_recall", "game", "game_help"]
    system = found["messages"][0]["content"]
    assert system.startswith("You are Ada.\n\n## Tools of the game\n")
    assert system.endswith(f"{found['catalogue']}\n\n## Standing orders\n- Stay.")
    lines = found["catalogue"].splitlines()
    assert len(lines) == len(tools) - 1
    assert max(map(len, lines)) <= 90
    spent = found["stats"]["tokens_by_category"]["tools"]
    assert 0 < spent < full["stats"]["tokens_by_category"]["tools"] / 10
    made = [c for m in found["messages"] for c in m.get("tool_calls") or ()]
    assert {call["function"]["name"] for call in made} <= {GAME}
    assert "tools" not in build(strategy=strategy)
    assert "catalogue" not in build(strategy=strategy, tools={"dock": "Dock."})


def test_calls_of_game_count_as_what_they_call():
    """A newer answer replaces an older one, whichever way they were asked for."""
    log: list[dict[str, Any]] = [{"role": "user", "content": "Look."}]
    for number in range(3):
        call = make_call(GAME, '{"command": "get_ship"}', call_id=f"c{number}")
        log.append({"role": "assistant", "content": None, "tool_calls": [call]})
        answer = {"role": "tool", "tool_call_id": f"c{number}", "content": "{}"}
        log.append(answer)
    tools = list_described()
    for mode, name in (("on_demand", GAME), ("full", "get_ship")):
        given = document(tools=tools, options={"tools": mode}) | {"messages": log}
        result = assemble(parse_request(given | {"strategy": "snapshot-window"}))
        made = [c for m in result.messages for c in m.get("tool_calls") or ()]
        assert [call["function"]["name"] for call in made] == [name]
        assert result.stats["superseded"] == 2


def test_the_budget_knows_what_the_tools_cost():
    tools, budget = list_described(), {"tokens": 4_000, "reserve": 0}
    refused = build(tools=tools, budget=budget)
    assert refused["impossible"]["component"] == "tools"
    assert refused["tools"] == tools
    assert build(tools=tools, budget=budget, options={"tools": "on_demand"})["messages"]
    few = build(tools=tools, budget=budget, options={"allow": ["dock"]})
    assert [tool["name"] for tool in few["tools"]] == ["dock", OWN["name"]]


@pytest.mark.parametrize(
    ("tools", "error"),
    [
        ([1], "tools[0]: must be an object"),
        ([{}], "tools[0].name: missing"),
        ([{"name": "a b"}], "tools[0].name: must be 1 to 64 letters"),
        ([{"name": "a"}, {"name": "a"}], 'tools[1].name: "a" is there already'),
        ([{"name": "a", "x": 1}], "tools[0].x: unknown key"),
        ([{"name": "a", "description": 1}], "tools[0].description: must be a text"),
        ([{"name": "a", "parameters": []}], "tools[0].parameters: must be an object"),
        ([{"name": "a", "parameters": {"properties": []}}], "tools[0].parameters.prop"),
        ([{"name": "a", "parameters": {"required": 1}}], "tools[0].parameters.required"),
        ("mine", "tools: must be an object"),
    ],
)  # fmt: skip
def test_bad_tools_are_named(tools: Any, error: str):
    with pytest.raises(DocumentError) as found:
        parse_request(document(tools=tools))
    assert str(found.value).startswith(error)


def test_a_tool_needs_no_more_than_its_name():
    found = build(tools=[{"name": "dock"}], options={"tools": "compact"})
    schema = {"type": "object", "properties": {}}
    assert found["tools"] == [{"name": "dock", "description": "", "parameters": schema}]


def test_policies_take_and_check_the_options_over_rest(admin_program: Program):
    options = {"tools": "on_demand", "allow": ["get_*", "mine"]}
    made = admin_program.post("/policies", {"name": "diet", "options": options})
    assert made.status_code == 201, made.content
    assert admin_program.get("/policies/diet").json()["options"] == options
    for bad, field in (
        ({"tools": "none"}, "options.tools"),
        ({"allow": [""]}, "allow[0]"),
    ):
        refused = admin_program.patch("/policies/diet", {"options": bad})
        assert refused.status_code == 422
        assert field in refused.json()["detail"]
    sent = document(tools=list_described(), options=options)
    answer = admin_program.post("/context/assemble", sent)
    assert answer.status_code == 200, answer.content
    found = answer.json()
    assert "mine(): " in found["catalogue"]
    assert "dock(" not in found["catalogue"]
    assert found["tools"][-1]["parameters"]["properties"]["names"]["maxItems"] == 20
